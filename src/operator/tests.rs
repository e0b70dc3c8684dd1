//! Real processes: small shell scripts that stand for operators.

use std::{path::Path, time::Duration};

use super::{
    OperatorError, Supervision,
    process::{FIRST_DELAY, Launch, Supervised, TAIL_LINES, build},
};
use crate::{
    clock::{RunClock, pause},
    event::MarkName,
    history::Recorder,
    scenario::duration::Span,
    verdict::sample::Sample,
};

/// Long enough for a busy machine; nothing waits that long when it works.
const LONG: Duration = Duration::from_secs(20);

struct Bench {
    folder: tempfile::TempDir,
    recorder: Recorder,
    operator: Supervised,
    supervision: Supervision,
}

/// Starts a script with a stop timeout of half a second.
async fn start(script: &str) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = Sample::reference().build().plan.operator;
    plan.command = ["/bin/sh", "-c", script].map(String::from).to_vec();
    plan.env.insert("ADDRESS".into(), "127.0.0.1:{{port}}".into());
    plan.working_directory = folder.path().to_owned();
    plan.stop_timeout = Span::from_millis(500);
    let launch = Launch::new(&plan, Path::new("kube.config"), 4242, &folder.path().join("operator.log"));
    let recorder = Recorder::new(RunClock::start(), None).unwrap();
    let (operator, supervision) = Supervised::start(launch, recorder.clone()).await.unwrap();
    Bench { folder, recorder, operator, supervision }
}

impl Bench {
    async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let deadline = self.recorder.clock.deadline(LONG);
        while !condition(self) {
            let seen = (self.operator.exits(), self.operator.log_tail());
            assert!(!deadline.passed(self.recorder.clock), "{what}: {seen:?}");
            pause(Duration::from_millis(5)).await;
        }
    }

    async fn says(&self, line: &str) {
        self.until(line, |bench| bench.operator.log_tail().lines().any(|known| known == line)).await;
    }

    /// How each process ended, and whether the harness made it.
    fn ends(&self) -> Vec<(String, bool)> {
        self.operator.exits().into_iter().map(|exit| (exit.how, exit.asked)).collect()
    }

    fn marks(&self, name: MarkName) -> Vec<u64> {
        self.recorder.read(|history| history.marks.iter().filter(|m| m.name == name).map(|m| m.at_ms).collect())
    }
}

/// The file that a script's child writes to has come to rest.
async fn beat_stopped(folder: &Path) {
    let size = || std::fs::metadata(folder.join("beat")).map_or(0, |file| file.len());
    assert!(size() > 0, "the child was alive");
    // A child that was only just killed may have one write under way.
    pause(Duration::from_millis(50)).await;
    let before = size();
    pause(Duration::from_millis(200)).await;
    assert_eq!(size(), before, "a child outlived its operator");
}

/// A child that does not listen to SIGTERM, and is heard as long as it lives.
const STUBBORN_CHILD: &str = "(trap '' TERM; while :; do echo x >> beat; sleep 0.01; done) & ";
const FOREVER: &str = "while :; do sleep 0.01; done";

#[tokio::test(flavor = "multi_thread")]
async fn it_has_its_environment_and_both_its_outputs_are_kept() {
    let script = "echo $KUBECONFIG $ADDRESS; echo '{{kubeconfig}} {{port}}' >&2; ";
    let bench = start(&format!("{script}{FOREVER}")).await;
    bench.says("kube.config 127.0.0.1:4242").await;
    bench.says("kube.config 4242").await;
    bench.operator.stop().await;
    let log = std::fs::read_to_string(bench.folder.path().join("operator.log")).unwrap();
    assert_eq!(log.lines().count(), 2, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_lets_it_end_in_order() {
    let bench = start(&format!("trap 'echo bye; exit 7' TERM; echo ready; {FOREVER}")).await;
    bench.says("ready").await;
    bench.operator.stop().await;
    assert_eq!(bench.ends(), [("exit code 7".into(), true)]);
    // The shell may speak of its child's end, too.
    assert!(bench.operator.exits()[0].log_tail.lines().any(|line| line == "bye"));
    assert_eq!(bench.marks(MarkName::OperatorExited).len(), 1);
    // What was asked to stop does not come back by itself.
    pause(FIRST_DELAY * 3).await;
    assert_eq!(bench.marks(MarkName::OperatorStarted).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_has_an_end() {
    let bench = start(&format!("trap '' TERM; echo ready; {FOREVER}")).await;
    bench.says("ready").await;
    let before = bench.recorder.clock.now_ms();
    bench.operator.stop().await;
    assert_eq!(bench.ends(), [("signal 9".into(), true)]);
    assert!(bench.recorder.clock.now_ms() - before >= 500, "it had its stop timeout first");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_gives_no_time_to_clean_up() {
    let bench = start(&format!("trap 'echo bye; exit 0' TERM; echo ready; {FOREVER}")).await;
    bench.says("ready").await;
    bench.operator.kill().await;
    assert_eq!(bench.ends(), [("signal 9".into(), true)]);
    assert!(!bench.operator.log_tail().contains("bye"));
}

#[tokio::test(flavor = "multi_thread")]
async fn children_end_with_it() {
    let bench = start(&format!("{STUBBORN_CHILD} sleep 0.05; echo ready; {FOREVER}")).await;
    bench.says("ready").await;
    bench.operator.stop().await;
    beat_stopped(bench.folder.path()).await;
    // Also when it ends by itself.
    let bench = start(&format!("{STUBBORN_CHILD} sleep 0.05; exit 0")).await;
    bench.until("its end", |bench| !bench.ends().is_empty()).await;
    bench.operator.stop().await;
    beat_stopped(bench.folder.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_comes_back_after_its_own_exit_with_a_growing_delay() {
    let bench = start("exit 3").await;
    bench.until("three restarts", |bench| bench.marks(MarkName::OperatorStarted).len() == 4).await;
    bench.operator.stop().await;
    let (started, exited) = (bench.marks(MarkName::OperatorStarted), bench.marks(MarkName::OperatorExited));
    for (round, (exit, start)) in exited.iter().zip(&started[1..]).enumerate() {
        // A mark's time is cut to whole milliseconds.
        let least = u64::try_from(FIRST_DELAY.as_millis()).unwrap() * (1 << round) - 1;
        assert!(start - exit >= least, "restart {round}: {} ms, not {least}", start - exit);
    }
    let exits = bench.operator.exits();
    assert!(exits.iter().take(3).all(|exit| exit.how == "exit code 3" && !exit.asked), "{exits:?}");
    assert!(exits.iter().map(|exit| exit.incarnation).eq(1..=u32::try_from(exits.len()).unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_started_again_on_order_and_only_once() {
    let bench = start(&format!("echo ready; {FOREVER}")).await;
    bench.operator.start_again().await.unwrap();
    assert_eq!(bench.marks(MarkName::OperatorStarted).len(), 1, "it was running");
    bench.operator.kill().await;
    bench.operator.start_again().await.unwrap();
    assert_eq!(bench.marks(MarkName::OperatorStarted).len(), 2);
    bench.operator.stop().await;
    let incarnations: Vec<u32> = bench.operator.exits().iter().map(|exit| exit.incarnation).collect();
    assert_eq!(incarnations, [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_when_every_handle_is_dropped() {
    let bench = start(&format!("{STUBBORN_CHILD} sleep 0.05; echo ready; {FOREVER}")).await;
    bench.says("ready").await;
    let Bench { folder, recorder, operator, supervision } = bench;
    drop(operator);
    supervision.join().await;
    assert!(recorder.history().mark(MarkName::OperatorExited).is_some());
    beat_stopped(folder.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn its_output_is_redacted_and_bounded() {
    let script =
        "i=0; while [ $i -lt 50 ]; do echo line $i; i=$((i+1)); done; echo Authorization: Bearer s3cr3t-t0ken-value";
    let bench = start(&format!("{script}; echo ready; {FOREVER}")).await;
    bench.says("ready").await;
    let tail = bench.operator.log_tail();
    assert_eq!(tail.lines().count(), TAIL_LINES);
    assert!(tail.contains("line 49") && !tail.contains("line 1\n"), "{tail}");
    bench.operator.stop().await;
    let log = std::fs::read_to_string(bench.folder.path().join("operator.log")).unwrap();
    assert!(log.contains("line 1\n") && !log.contains("s3cr3t"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_exist_is_an_error() {
    let mut plan = Sample::reference().build().plan.operator;
    plan.command = vec!["./no-such-program".into(), "{{port}}".into()];
    let launch = Launch::new(&plan, Path::new("kube.config"), 4242, Path::new("unused.log"));
    let recorder = Recorder::new(RunClock::start(), None).unwrap();
    let error = Supervised::start(launch, recorder).await.unwrap_err();
    assert_eq!(error.to_string(), "could not run `./no-such-program 4242` in .");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_fails_with_its_last_lines() {
    let mut plan = Sample::reference().build().plan.operator;
    build(&plan).await.expect("no build command is fine");
    plan.build = ["/bin/sh", "-c", "exit 0"].map(String::from).to_vec();
    build(&plan).await.expect("a command that ends with 0");
    plan.build[2] = "echo compiling; echo broken >&2; exit 2".into();
    let Err(OperatorError::Build { how, tail, .. }) = build(&plan).await else { panic!("the command failed") };
    assert_eq!((how.as_str(), tail.as_str()), ("exit code 2", "compiling\nbroken"));
}
