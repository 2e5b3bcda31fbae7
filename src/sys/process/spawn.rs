//! Starts a program in a session of its own that outlives this process when it must.
//!
//! Between fork and exec only async-signal-safe calls are made and nothing is allocated. The child itself
//! writes its id and start time into the pid file there, so there is no moment at which a living turn is
//! unknown. Must not know what the program is.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::libc;

use super::super::crash;
use super::child::Child;
use super::table::parse_stat;

/// First descriptor behind stdin, stdout and stderr.
const FIRST_OTHER_FD: libc::c_uint = 3;
/// Room for the fields of a stat line up to the start time: 22 numbers of at most 20 digits and a name of at
/// most 64 bytes.
const STAT_ROOM: usize = 1024;
/// Room for two decimal numbers, a space and a newline.
const PID_LINE_ROOM: usize = 48;
/// Signals that a runner started in the background may ignore and that a turn must heed all the same.
const RESET_SIGNALS: [libc::c_int; 5] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE];

/// A program to start; the descriptors in it are closed here once the child has them.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The program's absolute path.
    pub program: PathBuf,
    /// Its arguments without the program's name.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// The child's end of its stdin.
    pub stdin: OwnedFd,
    /// File for its stdout.
    pub stdout: File,
    /// File for its stderr.
    pub stderr: File,
    /// Locks that shall live as long as the child.
    pub inherit: Vec<BorrowedFd<'a>>,
    /// File that gets the line `<pid> <start time>`.
    pub pid_file: OwnedFd,
}

/// Starts the program; its process id is also its group and its session.
///
/// # Errors
/// Why it could not be started; no process is left then, but the pid file may have its line.
pub fn spawn(launch: Launch<'_>) -> io::Result<Child> {
    let mut command = Command::new(&launch.program);
    command.args(&launch.args).env_clear().envs(launch.env).current_dir(&launch.cwd);
    command.stdin(launch.stdin).stdout(launch.stdout).stderr(launch.stderr);
    let inherit: Vec<RawFd> = launch.inherit.iter().map(AsRawFd::as_raw_fd).collect();
    let pid_file = launch.pid_file.as_raw_fd();
    before_exec(&mut command, move || {
        isolate()?;
        inherit.iter().try_for_each(|fd| keep_open(*fd))?;
        write_pid_line(pid_file)
    });
    crash::point(|| "before spawn".to_owned());
    let child = Child::new(command.spawn()?);
    crash::point(|| "after spawn".to_owned());
    child
}

/// Starts a program with the same isolation and no inherited lock, stdin closed and its output in pipes. It lives no
/// longer than the thread that calls this.
pub(super) fn spawn_piped(mut command: Command) -> io::Result<std::process::Child> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    before_exec(&mut command, || {
        isolate()?;
        // Nobody hears the answer of a question whose asker is gone: it ends with the thread that started it.
        nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
        Ok(())
    });
    command.spawn()
}

#[allow(unsafe_code)]
fn before_exec(command: &mut Command, step: impl FnMut() -> io::Result<()> + Send + Sync + 'static) {
    // SAFETY: both callers pass steps that only make system calls on integers and stack buffers: they
    // neither allocate nor take a lock, as is required between fork and exec of a process with threads.
    unsafe { command.pre_exec(step) };
}

/// A session of its own, ordinary signals, and no descriptor but stdio (C2-11).
#[allow(unsafe_code)]
fn isolate() -> io::Result<()> {
    nix::unistd::setsid()?;
    for signal in RESET_SIGNALS {
        // SAFETY: setting the default action installs no code.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    nix::sys::signal::SigSet::empty().thread_set_mask()?;
    let flags = libc::CLOSE_RANGE_CLOEXEC;
    // SAFETY: the call takes integers and only sets a flag. Its answer is not needed: a kernel without it
    // leaves the descriptors as the libraries opened them, which is close-on-exec too.
    unsafe { libc::syscall(libc::SYS_close_range, FIRST_OTHER_FD, libc::c_uint::MAX, flags) };
    Ok(())
}

#[allow(unsafe_code)]
fn keep_open(fd: RawFd) -> io::Result<()> {
    // SAFETY: the call takes integers; the lock's owner keeps the descriptor open during the spawn.
    checked(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } as isize).map(drop)
}

fn checked(answer: isize) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

/// Writes `<pid> <start time>` and makes it durable.
#[allow(unsafe_code)]
fn write_pid_line(fd: RawFd) -> io::Result<()> {
    let mut stat = [0; STAT_ROOM];
    let length = read_own_stat(&mut stat)?;
    let start = parse_stat(&stat[..length]).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODATA))?.start;
    let mut line = [0; PID_LINE_ROOM];
    let begin = pid_line(std::process::id(), start, &mut line);
    write_all(fd, &line[begin..])?;
    // SAFETY: the call takes an integer; the launch keeps the descriptor open.
    checked(unsafe { libc::fsync(fd) } as isize).map(drop)
}

/// Reads this process's stat line, as far as it is needed, into `buffer`.
#[allow(unsafe_code)]
fn read_own_stat(buffer: &mut [u8; STAT_ROOM]) -> io::Result<usize> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path is a constant that ends with a zero byte.
    let fd = checked(unsafe { libc::open(c"/proc/self/stat".as_ptr(), flags) } as isize)? as RawFd;
    // SAFETY: the buffer is ours and as long as is said.
    let length = checked(unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) });
    // SAFETY: the descriptor was opened above and is used no more.
    unsafe { libc::close(fd) };
    length
}

#[allow(unsafe_code)]
fn write_all(fd: RawFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the pointer and the length are those of a living slice.
        match checked(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) }) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Puts the line at the end of `room` and says where it begins; formatting would allocate or could lock.
fn pid_line(pid: u32, start: u64, room: &mut [u8; PID_LINE_ROOM]) -> usize {
    let mut at = room.len() - 1;
    room[at] = b'\n';
    at = digits(start, room, at) - 1;
    room[at] = b' ';
    digits(u64::from(pid), room, at)
}

/// Writes `value` in decimal so that it ends before `end`; returns where it begins.
fn digits(mut value: u64, room: &mut [u8; PID_LINE_ROOM], end: usize) -> usize {
    let mut at = end;
    loop {
        at -= 1;
        room[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return at;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;

    use super::super::tests_support::{launch_sh, sh};
    use super::super::{Exit, parse_pid_line, start_time};
    use super::*;
    use crate::sys::lock::FileLock;
    use crate::sys::private::TempDir;

    /// Runs a script to its end and returns what it wrote to stdout.
    fn output(home: &TempDir, script: &str, locks: &[BorrowedFd<'_>]) -> String {
        let (child, stdin) = launch_sh(home.path(), script, locks);
        drop(stdin);
        assert_eq!(child.reap().unwrap(), Exit::Code(0));
        fs::read_to_string(home.join("out")).unwrap()
    }

    #[test]
    fn pid_lines_have_both_numbers() {
        for (pid, start, line) in [
            (1, 0, "1 0\n".to_owned()),
            (4_194_304, 98_765, "4194304 98765\n".to_owned()),
            (u32::MAX, u64::MAX, format!("{} {}\n", u32::MAX, u64::MAX)),
        ] {
            let mut room = [0; PID_LINE_ROOM];
            let begin = pid_line(pid, start, &mut room);
            assert_eq!(std::str::from_utf8(&room[begin..]).unwrap(), line);
        }
    }

    #[test]
    fn the_child_writes_its_id_and_start_time_before_it_runs() {
        let home = TempDir::new().unwrap();
        let (child, _stdin) = launch_sh(home.path(), "read line", &[]);
        let line = fs::read_to_string(home.join("pid")).unwrap();
        assert_eq!(parse_pid_line(&line), Some((child.pid(), child.start_time())));
        assert_eq!(start_time(child.pid()), Some(child.start_time()));
    }

    #[test]
    fn the_child_has_a_group_and_a_session_of_its_own() {
        let home = TempDir::new().unwrap();
        let text = output(&home, "read -r stat < /proc/self/stat; echo $$ $stat", &[]);
        let words: Vec<&str> = text.split_whitespace().collect();
        let (shell, group, session) = (words[0], words[5], words[6]);
        assert_eq!((group, session), (shell, shell));
    }

    #[test]
    fn the_child_has_exactly_the_given_environment_and_directory() {
        let home = TempDir::new().unwrap();
        let text = output(&home, "tr '\\0' '\\n' < /proc/$$/environ; pwd", &[]);
        assert_eq!(text, format!("PATH=/usr/bin:/bin\n{}\n", home.path().display()));
    }

    #[test]
    fn the_child_sees_only_its_stdio_and_the_locks() {
        let home = TempDir::new().unwrap();
        let lock = FileLock::try_acquire(&home.join("thread.lock")).unwrap().unwrap();
        let other = fs::File::open("/dev/null").unwrap();
        // A descriptor that some library left inheritable must not reach the child either.
        keep_open(other.as_raw_fd()).unwrap();
        let script = "cd /proc/$$/fd; for fd in *; do readlink $fd; done; true";
        let text = output(&home, script, &[lock.as_fd()]);
        let path = |name: &str| home.join(name).display().to_string();
        let mut seen: Vec<&str> = text.lines().collect();
        assert!(seen.remove(0).starts_with("pipe:"), "{text}");
        // The directory that the shell lists is gone when its link is read. The lock has the number it has in this
        // process, and names are listed by their first digit.
        seen.sort_unstable();
        assert_eq!(seen, [path("err"), path("out"), path("thread.lock")]);
    }

    #[test]
    fn signals_are_ordinary_in_the_child() {
        let home = TempDir::new().unwrap();
        let text = output(&home, "grep -E '^Sig(Blk|Ign)' /proc/self/status", &[]);
        let masks: Vec<u64> = text
            .lines()
            .map(|line| u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap())
            .collect();
        let of = |signal: libc::c_int| 1_u64 << (signal - 1);
        assert_eq!(masks[0], 0);
        assert!(RESET_SIGNALS.iter().all(|signal| masks[1] & of(*signal) == 0), "{text}");
    }

    #[test]
    fn a_program_that_cannot_be_started_is_an_error() {
        let home = TempDir::new().unwrap();
        for (program, cwd) in [("/nonexistent/program", "."), ("/bin/sh", "/nonexistent"), ("/", ".")] {
            let (mut launch, _stdin) = sh(home.path(), "true", &[]);
            launch.program = program.into();
            launch.cwd = cwd.into();
            assert!(spawn(launch).is_err(), "{program}");
        }
    }

    #[test]
    fn a_pid_file_that_cannot_be_written_keeps_the_program_from_running() {
        let home = TempDir::new().unwrap();
        let (mut launch, _stdin) = sh(home.path(), "echo ran", &[]);
        launch.pid_file = fs::File::open("/dev/null").unwrap().into();
        assert!(spawn(launch).is_err());
        assert_eq!(fs::read_to_string(home.join("out")).unwrap(), "");
    }
}
