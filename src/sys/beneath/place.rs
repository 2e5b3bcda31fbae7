//! Which file systems are views of the kernel rather than places for files (C5-05).

use std::io;
use std::os::fd::AsFd;

use nix::sys::statfs::{self, FsType, fstatfs};

/// Types whose files are answers of the kernel: names below them show other processes, settings and devices,
/// and the same name means something else to each process that opens it.
const KERNEL_FILE_SYSTEMS: &[FsType] = &[
    statfs::PROC_SUPER_MAGIC,
    statfs::SYSFS_MAGIC,
    statfs::CGROUP_SUPER_MAGIC,
    statfs::CGROUP2_SUPER_MAGIC,
    statfs::DEBUGFS_MAGIC,
    statfs::TRACEFS_MAGIC,
    statfs::SECURITYFS_MAGIC,
    statfs::SELINUX_MAGIC,
    statfs::SMACK_MAGIC,
    statfs::BPF_FS_MAGIC,
    statfs::DEVPTS_SUPER_MAGIC,
    statfs::NSFS_MAGIC,
    statfs::RDTGROUP_SUPER_MAGIC,
    statfs::OPENPROM_SUPER_MAGIC,
    statfs::USBDEVICE_SUPER_MAGIC,
    statfs::XENFS_SUPER_MAGIC,
    statfs::FUTEXFS_SUPER_MAGIC,
];

/// Whether the opened thing lies on a file system that is a view of the kernel.
pub fn on_kernel_file_system(fd: impl AsFd) -> io::Result<bool> {
    Ok(KERNEL_FILE_SYSTEMS.contains(&fstatfs(fd)?.filesystem_type()))
}
