//! The operator under test: installed and supervised, never changed.
