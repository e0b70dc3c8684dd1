//! Reports: from a run's record to bytes.
