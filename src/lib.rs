//! Reconverge proves that a Kubernetes operator converges.
