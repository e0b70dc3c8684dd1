//! `gone`: what is deleted disappears.

use serde_json::Value;

use crate::{
    event::MarkName,
    object::ObjectKey,
    observe::record::SnapshotLabel,
    verdict::{Case, Classification, Finding, Judgement, Oracle},
};

#[derive(Debug)]
pub(super) struct Gone;

impl Oracle for Gone {
    fn id(&self) -> &'static str {
        "gone"
    }

    fn title(&self) -> &'static str {
        "deleted objects disappear, and no finalizer keeps them"
    }

    fn explain(&self) -> &'static str {
        "The workload is deleted at the end of a run, and its objects must disappear within the recovery bound. A \
         finding lists what remains with the finalizers that hold it: usually the operator's own, which it does not \
         remove because a clean-up fails or because it lost track of the object."
    }

    fn judge(&self, case: &Case<'_>) -> Judgement {
        let history = case.history();
        let Some(mark) = history.mark(MarkName::NotGone) else {
            return match (history.mark(MarkName::Gone), history.mark(MarkName::Deleted)) {
                (Some(_), _) => Judgement::Holds,
                (None, Some(_)) => Judgement::Unknown("it was not looked whether the deleted objects are gone".into()),
                (None, None) => Judgement::NotApplicable("nothing was deleted in this run".into()),
            };
        };
        let held = held(case);
        let what = match held.first() {
            Some((key, finalizers)) if !finalizers.is_empty() => {
                format!("{key} is not gone: finalizer {} remains", finalizers.join(", "))
            }
            Some((key, _)) => format!("{key} is not gone after it was deleted"),
            None => format!("not gone after the workload was deleted: {}", mark.detail),
        };
        let mut detail = vec![mark.detail.clone()];
        detail.extend(held.iter().map(|(key, finalizers)| format!("{key}: finalizers [{}]", finalizers.join(", "))));
        detail.retain(|line| !line.is_empty());
        let about = held.first().map(|(key, _)| key.clone());
        let evidence = about.as_ref().map(|key| case.writes_to(key)).unwrap_or_default();
        let finding = Finding::new(self.id(), Classification::StuckDeletion, &what, &case.cause());
        Judgement::Violated(vec![finding.about(about).with_detail(detail.join("\n")).with_evidence(evidence)])
    }
}

/// Objects that are being deleted, with what holds them.
fn held(case: &Case<'_>) -> Vec<(ObjectKey, Vec<String>)> {
    let Some(deleted) = case.run.snapshot(SnapshotLabel::Deleted) else { return Vec::new() };
    let terminating = |object: &&Value| object.pointer("/metadata/deletionTimestamp").is_some();
    let mut held: Vec<(ObjectKey, Vec<String>)> = deleted
        .by_key()
        .into_iter()
        .filter(|(_, object)| terminating(object))
        .map(|(key, object)| {
            let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array).into_iter().flatten();
            (key, finalizers.filter_map(Value::as_str).map(str::to_owned).collect())
        })
        .collect();
    // What is held by a finalizer explains what waits for it.
    held.sort_by_key(|(_, finalizers)| finalizers.is_empty());
    held
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::verdict::{
        Outcome, judge_references,
        sample::{Sample, demo},
    };

    #[test]
    fn a_finalizer_that_remains_is_named() {
        let mut stuck = demo("Running");
        stuck["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        stuck["metadata"]["finalizers"] = json!(["example.com/cleanup"]);
        let run = Sample::reference()
            .replace_mark(MarkName::Gone, MarkName::NotGone, "2 s passed")
            .object(SnapshotLabel::Deleted, stuck);
        let verdict = judge_references(&[run.build()]).remove(0);
        assert_eq!(verdict.findings.len(), 1, "{:?}", verdict.findings);
        assert_eq!(verdict.findings[0].classification, Classification::StuckDeletion);
        assert_eq!(
            verdict.findings[0].sentence,
            "Demo default/x is not gone: finalizer example.com/cleanup remains, in a fault-free run"
        );
    }

    #[test]
    fn not_looking_is_not_passing() {
        let run = Sample::reference().change(|run| run.history.marks.retain(|mark| mark.name != MarkName::Gone));
        assert_eq!(judge_references(&[run.build()]).remove(0).outcome, Outcome::Inconclusive);
    }
}
