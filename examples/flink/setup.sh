# Builds what the scripts of this folder need. Sets `library`, the folder with Cairn's library, and `java_options` with
# the class path.
for tool in java mvn; do
    command -v $tool >/dev/null && continue
    echo "$tool is missing: install a JDK of version 17 or newer, and Maven" >&2
    exit 1
done
library=$PWD/target/lib
mkdir -p "$library"
if [[ -n ${CAIRN_LIBRARY:-} ]]; then
    cp "$CAIRN_LIBRARY/librocksdbjni.so" "$library"
else
    cargo build --quiet --release --locked --package cairn-rocksdbjni
    cp "${CARGO_TARGET_DIR:-../../target}/release/librocksdbjni.so" "$library"
fi
# With a copy of the other name that the classes look for, two class loaders can each load the library.
cp "$library/librocksdbjni.so" "$library/librocksdbjni-linux64.so"
mvn -q -B test-compile
# Flink's serializers look into classes of the JDK.
opens=()
for package in lang net io nio util util.concurrent time; do
    opens+=(--add-opens "java.base/java.$package=ALL-UNNAMED")
done
java_options=("${opens[@]}" -cp "target/classes:$(cat target/classpath)")
