//! One program of a control plane, in a process group of its own.
//!
//! # Guarantees
//! The group is killed when its [`Program`] is dropped, and by [`kill_everything`]. On Linux the kernel kills it, too,
//! when this program dies in whatever way.

use std::{
    collections::BTreeSet,
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, OnceLock, PoisonError, mpsc},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use super::{EnvtestError, leftovers};
use crate::clock::{RunClock, pause};

/// Process groups that are alive now.
static GROUPS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Lines of a program's log that an error shows.
const TAIL_LINES: usize = 20;
/// How much of the end of a log is read for them.
const TAIL_BYTES: usize = 16 * 1024;
/// How often a wait for a program's end looks again.
const LOOK: Duration = Duration::from_millis(20);

/// Kills every program of every control plane, and removes their folders. For an abort that cannot wait for orderly
/// ends.
pub fn kill_everything() {
    for group in GROUPS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let _ = killpg(Pid::from_raw(*group), Signal::SIGKILL);
    }
    leftovers::remove_own_folders();
}

/// A running program.
pub(super) struct Program {
    name: &'static str,
    child: Child,
    group: i32,
    /// Where its output goes, unless it is this program's.
    log: Option<PathBuf>,
}

impl Program {
    /// Starts it; its output goes to `log`, or with `None` to standard error.
    pub(super) fn start(
        name: &'static str,
        path: &Path,
        arguments: &[String],
        log: Option<PathBuf>,
    ) -> Result<Self, EnvtestError> {
        let failed = |source| EnvtestError::Spawn { program: path.display().to_string(), source };
        let mut command = Command::new(path);
        command.args(arguments).stdin(Stdio::null());
        if let Some(log) = &log {
            let file = File::create(log).map_err(failed)?;
            command.stdout(file.try_clone().map_err(failed)?).stderr(file);
        } else {
            command.stdout(std::io::stderr()).stderr(Stdio::inherit());
        }
        let child = spawn(command).map_err(failed)?;
        let group = i32::try_from(child.id()).unwrap_or_default();
        GROUPS.lock().unwrap_or_else(PoisonError::into_inner).insert(group);
        Ok(Self { name, child, group, log })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The error that says how it ended, when it has.
    pub(super) fn ended(&mut self) -> Option<EnvtestError> {
        let how = match self.child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => status.to_string(),
            Err(error) => error.to_string(),
        };
        Some(EnvtestError::Ended { program: self.name, how, tail: self.log_tail() })
    }

    /// The last lines of its log, redacted.
    pub(super) fn log_tail(&self) -> String {
        let bytes = self.log.as_ref().and_then(|log| std::fs::read(log).ok()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]);
        let lines: Vec<&str> = text.lines().collect();
        crate::redact::redact_text(&lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n"))
    }

    /// SIGTERM and a wait of at most `grace`; what is left then, or without a grace everything, is killed.
    pub(super) async fn stop(mut self, grace: Option<Duration>) {
        if let Some(grace) = grace {
            let _ = killpg(Pid::from_raw(self.group), Signal::SIGTERM);
            let clock = RunClock::start();
            let deadline = clock.deadline(grace);
            while self.ended().is_none() && !deadline.passed(clock) {
                pause(LOOK).await;
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = killpg(Pid::from_raw(self.group), Signal::SIGKILL);
        // After SIGKILL this takes milliseconds; without it the dead would stay in the process table.
        let _ = self.child.wait();
        GROUPS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.group);
    }
}

type Order = (Command, mpsc::SyncSender<std::io::Result<Child>>);

/// Starts a process from a thread that lives as long as this program: the kernel's "parent" whose death ends a child
/// is the thread that made it, and threads of a runtime come and go.
fn spawn(mut command: Command) -> std::io::Result<Child> {
    static KEEPER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    in_own_group(&mut command);
    let keeper = KEEPER.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        let keep = move || {
            for (mut command, done) in inbox {
                let _ = done.send(command.spawn());
            }
        };
        // Without the thread every order fails below.
        let _ = std::thread::Builder::new().name("control-planes".into()).spawn(keep);
        orders
    });
    let gone = || std::io::Error::other("the thread that starts control planes could not be made");
    let (done, result) = mpsc::sync_channel(1);
    keeper.send((command, done)).map_err(|_| gone())?;
    result.recv().map_err(|_| gone())?
}

fn in_own_group(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    command.process_group(0);
    #[cfg(target_os = "linux")]
    {
        let parent = std::process::id();
        let bind = move || {
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            // The parent may have died before; then nobody would send the signal.
            if u32::try_from(nix::unistd::getppid().as_raw()).ok() == Some(parent) {
                Ok(())
            } else {
                Err(std::io::ErrorKind::Interrupted.into())
            }
        };
        // SAFETY: between fork and exec the closure makes two system calls, and neither allocates nor takes a lock.
        unsafe {
            command.pre_exec(bind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_is_gone_when_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let script = ["-c".to_owned(), "echo started; sleep 600 & wait".to_owned()];
        let mut program = Program::start("sh", Path::new("/bin/sh"), &script, Some(log)).unwrap();
        let group = Pid::from_raw(program.group);
        let clock = RunClock::start();
        let deadline = clock.deadline(Duration::from_secs(10));
        while !program.log_tail().contains("started") {
            assert!(!deadline.passed(clock), "the program never wrote");
            pause(LOOK).await;
        }
        assert!(program.ended().is_none());
        assert!(killpg(group, None).is_ok());
        drop(program);
        // The grandchild is killed, and reaped by whoever adopts it.
        while killpg(group, None).is_ok() && !deadline.passed(clock) {
            pause(LOOK).await;
        }
        assert!(!GROUPS.lock().unwrap().contains(&group.as_raw()));
    }

    #[test]
    fn an_end_is_told_with_the_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let script = ["-c".to_owned(), "echo 'cannot bind' >&2; exit 3".to_owned()];
        let mut program = Program::start("sh", Path::new("/bin/sh"), &script, Some(folder.path().join("log"))).unwrap();
        let _ = program.child.wait();
        let error = program.ended().unwrap().to_string();
        assert!(error.contains("exit status: 3") && error.contains("cannot bind"), "{error}");
    }
}
