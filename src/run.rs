//! One run, from plan to record: the whole flow on one page.
