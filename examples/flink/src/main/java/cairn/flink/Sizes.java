package cairn.flink;

/** The size of a run. */
record Sizes(long records, long keys, int payload, int managedMegabytes, long checkpointMillis, double rate) {
    /** A run of a few seconds. */
    static final Sizes SHORT = new Sizes(120_000, 20_000, 64, 128, 1_000, 10_000);
    /** A run of minutes on two idle cores, whose state is several times the managed memory of a task manager. */
    static final Sizes LONG = new Sizes(2_400_000, 600_000, 100, 64, 10_000, 10_000);

    /** The same with other numbers of records and keys. */
    private Sizes scaled(double factor) {
        return new Sizes(
                (long) (records * factor), (long) (keys * factor), payload, managedMegabytes, checkpointMillis, rate);
    }

    static Sizes named(String name) {
        return switch (name) {
            case "short" -> SHORT;
            case "long" -> LONG.scaled(Double.parseDouble(System.getProperty("example.scale", "1")));
            default -> throw new IllegalArgumentException("short or long, not " + name);
        };
    }
}
