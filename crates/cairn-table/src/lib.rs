//! One table file: reader, builder, iterator.
