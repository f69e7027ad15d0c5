package cairn.flink;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Loads the classes of RocksDB, and with them the native library, in class loaders that are thrown away, as jobs do
 * that carry these classes in their own jar: one after the other, and two at a time.
 */
public final class Loaders {
    private static final int TIMES = 5;

    private Loaders() {}

    public static void main(String[] args) throws Exception {
        for (int i = 0; i < TIMES; i++) {
            WeakReference<ClassLoader> loader = new WeakReference<>(used(List.of("first")).get(0));
            for (int tries = 0; loader.get() != null; tries++) {
                if (tries == 100) {
                    throw new IllegalStateException("the class loader is still in use");
                }
                System.gc();
                Thread.sleep(20);
            }
            System.out.println("class loader " + i + " is gone; mapped: " + mapped());
        }
        used(List.of("first", "second"));
        System.out.println("two class loaders at a time; mapped: " + mapped());
        System.exit(0);
    }

    /** Uses a database in a new class loader for each name, all open at the same time, and returns the loaders. */
    private static List<ClassLoader> used(List<String> names) throws Exception {
        List<ClassLoader> loaders = new ArrayList<>();
        List<AutoCloseable> databases = new ArrayList<>();
        for (String name : names) {
            URLClassLoader loader = new URLClassLoader(jars(), ClassLoader.getPlatformClassLoader());
            loaders.add(loader);
            Path directory = Files.createTempDirectory(name);
            Class<?> library = loader.loadClass("org.rocksdb.NativeLibraryLoader");
            Object instance = library.getMethod("getInstance").invoke(null);
            // As the state backend does.
            library.getMethod("loadLibrary", String.class).invoke(instance, directory.toString());
            Class<?> type = loader.loadClass("org.rocksdb.RocksDB");
            Object db = type.getMethod("open", String.class).invoke(null, directory.resolve("db").toString());
            byte[] key = name.getBytes();
            type.getMethod("put", byte[].class, byte[].class).invoke(db, key, key);
            byte[] value = (byte[]) type.getMethod("get", byte[].class).invoke(db, key);
            if (!name.equals(new String(value))) {
                throw new IllegalStateException("read " + new String(value));
            }
            databases.add((AutoCloseable) db);
        }
        if (mapped().stream().anyMatch(path -> !path.startsWith(System.getProperty("java.library.path")))) {
            throw new IllegalStateException("another library is loaded: " + mapped());
        }
        for (AutoCloseable database : databases) {
            database.close();
        }
        return loaders;
    }

    private static URL[] jars() throws IOException {
        List<URL> urls = new ArrayList<>();
        for (String entry : System.getProperty("java.class.path").split(":")) {
            if (entry.contains("frocksdbjni")) {
                urls.add(Path.of(entry).toUri().toURL());
            }
        }
        return urls.toArray(new URL[0]);
    }

    private static List<String> mapped() throws IOException {
        try (Stream<String> maps = Files.lines(Path.of("/proc/self/maps"))) {
            return maps.filter(line -> line.contains("librocksdbjni"))
                    .map(line -> line.substring(line.indexOf('/')))
                    .distinct()
                    .collect(Collectors.toList());
        }
    }
}
