//! What a policy means, for a whole cluster, at a moment.
