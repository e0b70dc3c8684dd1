//! Moves replicas between ReplicaSets.

use serde_json::Value;

use super::{
    Rollout,
    revisions::{DESIRED, MAX, age, size},
};
use crate::{
    controllers::{
        object::{annotation, int, is_terminating},
        replicaset::scale,
    },
    status::ApiError,
};

fn available(set: &Value) -> i64 {
    int(set, "/status/availableReplicas")
}

impl Rollout<'_> {
    fn total(&self) -> i64 {
        self.sets.all().map(size).sum()
    }

    /// Whether `spec.replicas` changed since the sets with pods were last sized.
    pub(super) fn was_scaled(&self) -> bool {
        let wanted = self.replicas();
        self.sets.all().filter(|s| size(s) > 0 && !is_terminating(s)).any(|set| {
            annotation(set, DESIRED).and_then(|d| d.parse::<i64>().ok()).is_some_and(|desired| desired != wanted)
        })
    }

    /// Sets the new ReplicaSet's size; tells whether it wrote a different one.
    pub(super) fn scale_new(&mut self, replicas: i64) -> Result<bool, ApiError> {
        let annotations = self.size_annotations();
        let Some(set) = self.sets.new.as_mut() else { return Ok(false) };
        let moved = size(set) != replicas;
        scale(self.client, set, replicas, &annotations)?;
        Ok(moved)
    }

    fn scale_old(&mut self, index: usize, replicas: i64) -> Result<bool, ApiError> {
        let annotations = self.size_annotations();
        let moved = size(&self.sets.old[index]) != replicas;
        scale(self.client, &mut self.sets.old[index], replicas, &annotations)?;
        Ok(moved)
    }

    /// Grows the new set as far as `maxSurge` permits, or cuts it to size.
    pub(super) fn grow_new(&mut self) -> Result<bool, ApiError> {
        let Some(new) = &self.sets.new else { return Ok(false) };
        let (have, wanted) = (size(new), self.replicas());
        let target = if have >= wanted {
            wanted
        } else {
            let room = self.replicas() + self.max_surge() - self.total();
            have + room.clamp(0, wanted - have)
        };
        if target == have { Ok(false) } else { self.scale_new(target) }
    }

    /// Shrinks old sets as far as `maxUnavailable` permits: unhealthy replicas first, then the oldest set's.
    pub(super) fn shrink_old(&mut self) -> Result<bool, ApiError> {
        if self.sets.old.iter().map(size).sum::<i64>() == 0 {
            return Ok(false);
        }
        let minimum = self.replicas() - self.max_unavailable();
        let new_unavailable = self.sets.new.as_ref().map_or(0, |n| size(n) - available(n));
        let mut budget = self.total() - minimum - new_unavailable;
        if budget <= 0 {
            return Ok(false);
        }
        let mut moved = false;
        for index in 0..self.sets.old.len() {
            let set = &self.sets.old[index];
            let unhealthy = (size(set) - available(set)).clamp(0, budget);
            if unhealthy > 0 {
                let target = size(set) - unhealthy;
                moved |= self.scale_old(index, target)?;
                budget -= unhealthy;
            }
        }
        let mut spare = self.sets.all().map(available).sum::<i64>() - minimum;
        for index in 0..self.sets.old.len() {
            let set = &self.sets.old[index];
            let cut = size(set).min(spare.max(0));
            if cut > 0 {
                let target = size(set) - cut;
                moved |= self.scale_old(index, target)?;
                spare -= cut;
            }
        }
        Ok(moved)
    }

    /// Recreate: takes every old set to zero.
    pub(super) fn stop_old(&mut self) -> Result<bool, ApiError> {
        let mut moved = false;
        for index in 0..self.sets.old.len() {
            if size(&self.sets.old[index]) > 0 {
                moved |= self.scale_old(index, 0)?;
            }
        }
        Ok(moved)
    }

    /// Follows a change of `spec.replicas` in the midst of a rollout, or while paused.
    pub(super) fn scale_in_proportion(&mut self) -> Result<bool, ApiError> {
        let wanted = self.replicas();
        let active: Vec<usize> = (0..self.sets.old.len()).filter(|i| size(&self.sets.old[*i]) > 0).collect();
        let new_active = self.sets.new.as_ref().is_some_and(|n| size(n) > 0);
        match (active.as_slice(), new_active) {
            ([], _) if self.sets.new.is_some() => return self.scale_new(wanted),
            ([], _) => {
                // Nothing is active and no set fits the template: the latest one takes the size.
                let Some(last) = self.sets.old.len().checked_sub(1) else { return Ok(false) };
                return self.scale_old(last, wanted);
            }
            ([only], false) => return self.scale_old(*only, wanted),
            _ => {}
        }
        let saturated = self.sets.new.as_ref().is_some_and(|n| {
            let desired = annotation(n, DESIRED).and_then(|d| d.parse::<i64>().ok());
            size(n) == wanted && desired == Some(wanted) && available(n) == wanted
        });
        if saturated {
            return self.stop_old();
        }
        if super::is_recreate(&self.deployment) {
            return Ok(false);
        }
        self.spread(&active, new_active)
    }

    /// Shares out what is to be added or removed by the sets' sizes; the first in line takes the rounding.
    fn spread(&mut self, active: &[usize], new_active: bool) -> Result<bool, ApiError> {
        let total = self.total();
        let wanted = self.replicas();
        let allowed = if wanted > 0 { wanted + self.max_surge() } else { 0 };
        let to_add = allowed - total;
        // `None` stands for the new set.
        let mut line: Vec<(i64, Option<usize>)> = active.iter().map(|i| (size(&self.sets.old[*i]), Some(*i))).collect();
        if new_active && let Some(new) = &self.sets.new {
            line.push((size(new), None));
        }
        line.sort_by_key(|(size, at)| {
            let set = at.map_or_else(|| self.sets.new.as_ref(), |i| self.sets.old.get(i));
            (std::cmp::Reverse(*size), set.map(age))
        });
        let mut left = to_add;
        let mut targets = Vec::new();
        for (size, at) in &line {
            let set = at.map_or_else(|| self.sets.new.as_ref(), |i| self.sets.old.get(i));
            let before = set
                .and_then(|s| annotation(s, MAX))
                .and_then(|m| m.parse::<i64>().ok())
                .filter(|m| *m > 0)
                .unwrap_or_else(|| int(&self.deployment, "/status/replicas").max(1));
            let share = if to_add == 0 { 0 } else { rounded(size * allowed, before) - size };
            let share = if to_add > 0 { share.clamp(0, left) } else { share.clamp(left, 0) };
            left -= share;
            targets.push((*at, (size + share).max(0)));
        }
        if let Some(first) = targets.first_mut() {
            first.1 = (first.1 + left).max(0);
        }
        let mut moved = false;
        for (at, target) in targets {
            moved |= match at {
                Some(index) => self.scale_old(index, target)?,
                None => self.scale_new(target)?,
            };
        }
        Ok(moved)
    }
}

/// Division rounded to the nearest whole number, for non-negative operands.
fn rounded(dividend: i64, divisor: i64) -> i64 {
    (2 * dividend + divisor).div_euclid(2 * divisor)
}
