//! Supervises the operator's process: start, stop, kill, and restart when it ends by itself.
//!
//! # Guarantees
//! One task owns the child. Its process group is ended with it, so that no grandchild is left. Every exit is
//! recorded with the last lines of its output, redacted.
//!
//! # Cancellation
//! Dropping the last [`Supervised`] kills the child's group; [`super::Supervision::join`] awaits that.

use std::{
    collections::{BTreeSet, VecDeque},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
    sync::{mpsc, oneshot},
    task::JoinSet,
};

use super::{OperatorError, Supervision, leftovers};
use crate::{
    clock::pause, cluster::owner::Owner, event::MarkName, history::Recorder, observe::record::OperatorExit,
    scenario::plan::OperatorPlan,
};

/// Lines of output that an exit's record keeps.
pub(super) const TAIL_LINES: usize = 30;
/// First delay before a process that ended by itself is started again; doubles up to [`MAX_DELAY`].
pub(super) const FIRST_DELAY: Duration = Duration::from_millis(100);
/// A kubelet waits up to five minutes; a test run has no such time.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// Process groups that are alive now, for an abort that cannot wait for orderly ends.
static GROUPS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Set when the program is about to end: a supervisor that sees its operator die must not start it again.
static ABORTED: AtomicBool = AtomicBool::new(false);

/// Kills every operator that this program started; none is started afterwards. For the second Ctrl-C only.
pub fn kill_everything() {
    ABORTED.store(true, Ordering::SeqCst);
    for group in GROUPS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let _ = killpg(Pid::from_raw(*group), Signal::SIGKILL);
    }
}

/// How to run the command, with every placeholder filled in.
#[derive(Debug, Clone)]
pub struct Launch {
    command: Vec<String>,
    env: Vec<(String, String)>,
    directory: PathBuf,
    stop_timeout: Duration,
    log: PathBuf,
}

impl Launch {
    /// Fills in `{{kubeconfig}}` and `{{port}}`, which are known only now.
    #[must_use]
    pub fn new(plan: &OperatorPlan, kubeconfig: &Path, port: u16, log: &Path) -> Self {
        let path = kubeconfig.display().to_string();
        let fill = |text: &String| text.replace("{{kubeconfig}}", &path).replace("{{port}}", &port.to_string());
        let owner = Owner::me().to_string();
        let mut env = vec![("KUBECONFIG".to_owned(), path.clone()), (leftovers::VARIABLE.to_owned(), owner)];
        env.extend(plan.env.iter().map(|(name, value)| (name.clone(), fill(value))));
        Self {
            command: plan.command.iter().map(fill).collect(),
            env,
            directory: plan.working_directory.clone(),
            stop_timeout: plan.stop_timeout.0,
            log: log.to_owned(),
        }
    }

    fn words(&self) -> String {
        self.command.join(" ")
    }
}

#[derive(Debug)]
enum Order {
    Start,
    Stop,
    Kill,
}

#[derive(Debug, Default)]
struct Shared {
    exits: Mutex<Vec<OperatorExit>>,
    tail: Mutex<VecDeque<String>>,
}

/// A supervised process; the handle may be cloned.
#[derive(Debug, Clone)]
pub struct Supervised {
    shared: Arc<Shared>,
    orders: mpsc::Sender<(Order, oneshot::Sender<Result<(), OperatorError>>)>,
}

impl Supervised {
    /// Starts the command and its supervision.
    ///
    /// # Errors
    /// When the program cannot be started at all.
    pub async fn start(launch: Launch, recorder: Recorder) -> Result<(Self, Supervision), OperatorError> {
        let (orders, inbox) = mpsc::channel(4);
        let shared = Arc::<Shared>::default();
        let supervisor = Supervisor { launch, recorder, shared: Arc::clone(&shared), running: None };
        let task = tokio::spawn(supervisor.serve(inbox));
        let operator = Self { shared, orders };
        operator.order(Order::Start).await?;
        Ok((operator, Supervision(task)))
    }

    /// SIGTERM, then SIGKILL after the stop timeout.
    pub async fn stop(&self) {
        let _ = self.order(Order::Stop).await;
    }

    /// SIGKILL to the whole group; returns when it is dead.
    pub async fn kill(&self) {
        let _ = self.order(Order::Kill).await;
    }

    /// Starts it again after `stop` or `kill`.
    ///
    /// # Errors
    /// When the program cannot be started at all.
    pub async fn start_again(&self) -> Result<(), OperatorError> {
        self.order(Order::Start).await
    }

    /// How its processes ended up to now.
    #[must_use]
    pub fn exits(&self) -> Vec<OperatorExit> {
        self.shared.exits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The last lines of its output.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.shared.log_tail()
    }

    async fn order(&self, order: Order) -> Result<(), OperatorError> {
        let (done, result) = oneshot::channel();
        if self.orders.send((order, done)).await.is_err() {
            return Ok(());
        }
        result.await.unwrap_or(Ok(()))
    }
}

impl Shared {
    fn log_tail(&self) -> String {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.iter().cloned().collect::<Vec<_>>().join("\n")
    }
}

struct Running {
    child: Child,
    group: i32,
    incarnation: u32,
    readers: JoinSet<()>,
}

struct Supervisor {
    launch: Launch,
    recorder: Recorder,
    shared: Arc<Shared>,
    running: Option<Running>,
}

impl Supervisor {
    async fn serve(mut self, mut inbox: mpsc::Receiver<(Order, oneshot::Sender<Result<(), OperatorError>>)>) {
        let mut delay = FIRST_DELAY;
        let mut wanted = false;
        loop {
            tokio::select! {
                order = inbox.recv() => {
                    let Some((order, done)) = order else { break };
                    let result = match order {
                        Order::Start => { wanted = true; delay = FIRST_DELAY; self.launch().await }
                        Order::Stop => { wanted = false; self.end(Signal::SIGTERM).await; Ok(()) }
                        Order::Kill => { wanted = false; self.end(Signal::SIGKILL).await; Ok(()) }
                    };
                    let _ = done.send(result);
                }
                status = exit_of(&mut self.running) => {
                    self.ended(status, Asked::No).await;
                }
                () = pause(delay), if wanted && self.running.is_none() => {
                    delay = (delay * 2).min(MAX_DELAY);
                    let _ = self.launch().await;
                }
            }
        }
        self.end(Signal::SIGKILL).await;
    }

    async fn launch(&mut self) -> Result<(), OperatorError> {
        if self.running.is_some() || ABORTED.load(Ordering::SeqCst) {
            return Ok(());
        }
        let spawn_error = |source| OperatorError::Spawn {
            command: self.launch.words(),
            directory: self.launch.directory.display().to_string(),
            source,
        };
        let [program, arguments @ ..] = self.launch.command.as_slice() else {
            return Err(spawn_error(std::io::Error::other("the command is empty")));
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(self.launch.env.iter().cloned())
            .current_dir(&self.launch.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(spawn_error)?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default();
        GROUPS.lock().unwrap_or_else(PoisonError::into_inner).insert(group);
        if ABORTED.load(Ordering::SeqCst) {
            // It was started at the very moment of the abort, and not among those that were killed.
            kill_everything();
        }
        let incarnation = self.recorder.next_incarnation();
        self.recorder.mark(MarkName::OperatorStarted, format!("incarnation {incarnation}"));
        let mut readers = JoinSet::new();
        if let Some(stdout) = child.stdout.take() {
            readers.spawn(read_lines(stdout, Arc::clone(&self.shared), self.launch.log.clone()));
        }
        if let Some(stderr) = child.stderr.take() {
            readers.spawn(read_lines(stderr, Arc::clone(&self.shared), self.launch.log.clone()));
        }
        self.running = Some(Running { child, group, incarnation, readers });
        Ok(())
    }

    /// Ends the group; with SIGTERM it has the stop timeout before SIGKILL.
    async fn end(&mut self, signal: Signal) {
        let Some(running) = &mut self.running else { return };
        if let Ok(Some(status)) = running.child.try_wait() {
            // It was faster than the order.
            return self.ended(Ok(status), Asked::No).await;
        }
        let group = Pid::from_raw(running.group);
        let _ = killpg(group, signal);
        let waited = tokio::time::timeout(self.launch.stop_timeout, running.child.wait()).await;
        let status = match waited {
            Ok(status) => status,
            Err(_) => {
                let _ = killpg(group, Signal::SIGKILL);
                running.child.wait().await
            }
        };
        self.ended(status, Asked::Yes).await;
    }

    async fn ended(&mut self, status: std::io::Result<ExitStatus>, asked: Asked) {
        let Some(mut running) = self.running.take() else { return };
        // Whatever the process itself had started must not outlive it.
        let _ = killpg(Pid::from_raw(running.group), Signal::SIGKILL);
        GROUPS.lock().unwrap_or_else(PoisonError::into_inner).remove(&running.group);
        let drained = tokio::time::timeout(Duration::from_secs(1), async {
            while running.readers.join_next().await.is_some() {}
        });
        if drained.await.is_err() {
            running.readers.abort_all();
        }
        let how = in_words(status);
        self.recorder.mark(MarkName::OperatorExited, how.clone());
        let exit = OperatorExit {
            at_ms: self.recorder.clock.now_ms(),
            incarnation: running.incarnation,
            how,
            asked: asked == Asked::Yes,
            log_tail: self.shared.log_tail(),
        };
        self.shared.exits.lock().unwrap_or_else(PoisonError::into_inner).push(exit);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Yes,
    No,
}

async fn exit_of(running: &mut Option<Running>) -> std::io::Result<ExitStatus> {
    match running {
        Some(running) => running.child.wait().await,
        None => std::future::pending().await,
    }
}

fn in_words(status: std::io::Result<ExitStatus>) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "unknown end".into(),
        },
        Err(error) => format!("could not be waited for: {error}"),
    }
}

/// Copies a stream line by line, redacted, into the log file and the tail.
async fn read_lines(stream: impl AsyncRead + Unpin, shared: Arc<Shared>, log: PathBuf) {
    let mut file = tokio::fs::OpenOptions::new().create(true).append(true).open(&log).await.ok();
    let mut lines = BufReader::new(stream).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        let line = crate::redact::redact_text(&String::from_utf8_lossy(&line));
        if let Some(file) = &mut file {
            let _ = file.write_all(format!("{line}\n").as_bytes()).await;
        }
        let mut tail = shared.tail.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.len() == TAIL_LINES {
            tail.pop_front();
        }
        tail.push_back(line);
    }
    if let Some(file) = &mut file {
        let _ = file.flush().await;
    }
}

/// What `cargo run` tells a program about itself. A build command that is cargo again would take it for a change of
/// what its build scripts depend on, and compile half of the dependencies anew.
fn is_about_us(name: &str) -> bool {
    const NAMES: [&str; 6] = [
        "CARGO_MANIFEST_DIR",
        "CARGO_MANIFEST_PATH",
        "CARGO_MANIFEST_LINKS",
        "CARGO_BIN_NAME",
        "CARGO_CRATE_NAME",
        "OUT_DIR",
    ];
    name.starts_with("CARGO_PKG_") || NAMES.contains(&name)
}

/// Runs the build command once, before the first start.
///
/// # Errors
/// When it cannot be started or fails; the error carries its last lines.
pub async fn build(plan: &OperatorPlan) -> Result<(), OperatorError> {
    let [program, arguments @ ..] = plan.build.as_slice() else { return Ok(()) };
    let words = plan.build.join(" ");
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_about_us(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    let output = command
        .args(arguments)
        .current_dir(&plan.working_directory)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|source| OperatorError::Spawn {
            command: words.clone(),
            directory: plan.working_directory.display().to_string(),
            source,
        })?;
    if output.status.success() {
        return Ok(());
    }
    let all = [output.stdout, output.stderr].concat();
    let text = crate::redact::redact_text(&String::from_utf8_lossy(&all));
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
    Err(OperatorError::Build { command: words, how: in_words(Ok(output.status)), tail })
}

/// A TCP port that was free a moment ago, for `{{port}}`.
///
/// # Errors
/// When the machine has none.
pub fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
