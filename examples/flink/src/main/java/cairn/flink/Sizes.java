package cairn.flink;

/** The size of a run. */
record Sizes(long records, long keys, int payload, int managedMegabytes, long checkpointMillis, double rate) {
    /** A run of a few seconds. */
    static final Sizes SHORT = new Sizes(120_000, 20_000, 64, 128, 1_000, 10_000);
    /** A run of more than ten minutes, whose state is larger than the memory that Flink manages. */
    static final Sizes LONG = new Sizes(20_000_000, 2_500_000, 100, 128, 10_000, 10_000);

    static Sizes named(String name) {
        return switch (name) {
            case "short" -> SHORT;
            case "long" -> LONG;
            default -> throw new IllegalArgumentException("short or long, not " + name);
        };
    }
}
