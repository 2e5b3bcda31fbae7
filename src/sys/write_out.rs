//! Bytes on their way to the disk while more of them come. Must not know what they are.

use std::fs::File;
use std::os::fd::AsRawFd;

use nix::libc;

/// Lets the kernel begin to write `length` bytes of `file` from `offset` on, and does not wait for them.
///
/// A hint that promises nothing: what must survive a loss of power is synced all the same, which then takes short.
#[allow(unsafe_code)]
pub fn begin(file: &File, offset: u64, length: u64) {
    let (Ok(offset), Ok(length)) = (offset.try_into(), length.try_into()) else { return };
    // SAFETY: the call takes no pointer, and the descriptor is open as long as `file` is borrowed.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, libc::SYNC_FILE_RANGE_WRITE) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_bytes_stay_as_they_are() {
        let dir = crate::sys::private::TempDir::new().unwrap();
        let path = dir.path().join("a");
        let mut file = crate::sys::private::create_file(&path).unwrap();
        file.write_all(b"abc").unwrap();
        for (offset, length) in [(0, 3), (2, 100), (0, 0), (u64::MAX, u64::MAX)] {
            begin(&file, offset, length);
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"abc");
    }
}
