//! Becoming a warden and starting the program: the only unsafe code of the process layer.

use rustix::{
    fd::{FromRawFd, OwnedFd},
    fs::{Mode, OFlags, open},
    io::Errno,
    process::{Pid, Signal, getpid, getppid, set_child_subreaper, set_parent_process_death_signal},
    stdio,
};
use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

/// The highest classic signal; the ones above are real-time signals, whose default
/// is to end the process and which nobody ignores by habit.
const LAST_SIGNAL: i32 = 31;

/// Closes what was inherited beyond the standard streams, so that neither the warden nor
/// the program holds open what is somebody else's. Must come before anything is opened.
pub fn close_inherited() {
    // SAFETY: nothing in this process owns a descriptor above 2 yet. On a kernel before 5.9
    // the call fails and changes nothing.
    unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32) };
}

/// Adopts orphaned descendants and blocks every signal that can be blocked, so that
/// one sent to a group or a terminal does not end the warden before its tree.
/// Returns the handle that becomes readable when a child ended.
pub fn become_warden() -> io::Result<OwnedFd> {
    set_child_subreaper(Some(getpid()))?;
    // SAFETY: the sets are initialised by sigfillset/sigemptyset before they are read, the
    // pointers are to live locals, and the process has a single thread.
    let fd = unsafe {
        let mut every = std::mem::zeroed();
        libc::sigfillset(&raw mut every);
        // The signals of our own faults stay: blocked, they would be undefined.
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT] {
            libc::sigdelset(&raw mut every, fault);
        }
        // An ignored SIGCHLD (inherited) would reap the children behind our back.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        if libc::sigprocmask(libc::SIG_SETMASK, &raw const every, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut ended = std::mem::zeroed();
        libc::sigemptyset(&raw mut ended);
        libc::sigaddset(&raw mut ended, libc::SIGCHLD);
        libc::signalfd(-1, &raw const ended, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: signalfd has just returned it and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Starts the program in a session (hence a group) of its own, so that a question to
/// a terminal fails at once instead of stopping it; it dies with the warden.
///
/// # Errors
/// What `fork` or `exec` said.
pub fn program(
    program: &OsStr,
    args: impl Iterator<Item = OsString>,
    input: OwnedFd,
) -> io::Result<Child> {
    let warden = getpid();
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::from(input));
    // SAFETY: between fork and exec only system calls are made: nothing allocates or locks.
    unsafe {
        command.pre_exec(move || {
            // A program starts as if nobody had blocked or ignored anything.
            let mut none = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
            for signal in 1..=LAST_SIGNAL {
                // Fails for KILL and STOP, which are never ignored.
                libc::signal(signal, libc::SIG_DFL);
            }
            rustix::process::setsid()?;
            die_with(warden)
        });
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "the one start of a program, on the supervisor's behalf"
    )]
    command.spawn()
}

/// The warden has one thread, which lives as long as it does: PDEATHSIG, which is tied
/// to the thread that forked, is right here and wrong anywhere else.
fn die_with(warden: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have died before the line above.
    if getppid() == Some(warden) { Ok(()) } else { Err(Errno::SRCH.into()) }
}

/// `/dev/null`, opened before the program starts: after that nothing may fail any more.
pub fn null() -> io::Result<OwnedFd> {
    Ok(open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// Puts `/dev/null` over the standard streams, so that the program's ends of stream
/// are seen at the other side.
pub fn let_go_of_the_streams(null: &OwnedFd) {
    // dup2 over an open descriptor fails only when interrupted; every signal is blocked.
    let _ = stdio::dup2_stdin(null);
    let _ = stdio::dup2_stdout(null);
    let _ = stdio::dup2_stderr(null);
}
