//! What the engine shows of itself: the info log, counters, events.
