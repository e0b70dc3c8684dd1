//! Clusters: one trait, one file per lane.
