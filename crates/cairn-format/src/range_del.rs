//! Range tombstones and their fragments.
