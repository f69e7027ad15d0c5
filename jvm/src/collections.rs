//! Java's object arrays, lists, maps and boxed numbers.

use jni_sys::{jint, jlong, jvalue};

use crate::env::{ByteArray, Env, JString, Object, ObjectArray, Outcome};

impl Env {
    /// An array of `byte[]`; null for `None`.
    pub fn byte_arrays<'a>(
        self,
        items: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
    ) -> Outcome<ObjectArray> {
        let array = self.object_array("[B", items.len())?;
        for (at, item) in items.enumerate() {
            let item = self.maybe_byte_array(item)?;
            self.set_element(array, at, Object(item.0))?;
        }
        Ok(array)
    }

    /// The elements of a `byte[][]`.
    pub fn all_byte_arrays(self, array: ObjectArray) -> Outcome<Vec<Vec<u8>>> {
        let len = self.len(Object(array.0))?;
        let mut all = Vec::new();
        for at in 0..usize::try_from(len).unwrap_or(0) {
            let item = self.element(array, at)?;
            all.push(self.all_bytes(ByteArray(item.0))?.to_vec());
            self.forget(item);
        }
        Ok(all)
    }

    /// The elements of a `String[]`.
    pub fn texts(self, array: ObjectArray) -> Outcome<Vec<String>> {
        self.strings_by(array, Env::text)
    }

    /// The elements of a `String[]`, each converted by `take`.
    pub fn strings_by<T>(
        self,
        array: ObjectArray,
        take: fn(Env, JString) -> Outcome<T>,
    ) -> Outcome<Vec<T>> {
        let len = self.len(Object(array.0))?;
        let mut all = Vec::new();
        for at in 0..usize::try_from(len).unwrap_or(0) {
            let item = self.element(array, at)?;
            all.push(take(self, JString(item.0))?);
            self.forget(item);
        }
        Ok(all)
    }

    /// A `String[]`.
    pub fn strings<S: AsRef<str>>(self, items: &[S]) -> Outcome<ObjectArray> {
        let array = self.object_array("java/lang/String", items.len())?;
        for (at, item) in items.iter().enumerate() {
            let item = self.string(item.as_ref())?;
            self.set_element(array, at, Object(item.0))?;
        }
        Ok(array)
    }

    /// A `HashMap` of the given pairs. The local references to them are released.
    pub fn map(self, pairs: impl Iterator<Item = Outcome<(Object, Object)>>) -> Outcome<Object> {
        let map = self.create("java/util/HashMap", "()V", &[])?;
        let put = self.method_of(
            map,
            "put",
            "(Ljava/lang/Object;Ljava/lang/Object;)Ljava/lang/Object;",
        )?;
        for pair in pairs {
            let (key, value) = pair?;
            let old = self.call_object(map, put, &[jvalue { l: key.0 }, jvalue { l: value.0 }])?;
            self.forget(old);
            self.forget(key);
            self.forget(value);
        }
        Ok(map)
    }

    /// Appends objects to a `List`, and releases the local references to them.
    pub fn append(self, list: Object, items: impl Iterator<Item = Outcome<Object>>) -> Outcome<()> {
        let add = self.method_of(list, "add", "(Ljava/lang/Object;)Z")?;
        for item in items {
            let item = item?;
            self.call_bool(list, add, &[jvalue { l: item.0 }])?;
            self.forget(item);
        }
        Ok(())
    }

    /// An `Integer`.
    pub fn boxed_int(self, value: jint) -> Outcome<Object> {
        self.create("java/lang/Integer", "(I)V", &[jvalue { i: value }])
    }

    /// A `Long`.
    pub fn boxed_long(self, value: jlong) -> Outcome<Object> {
        self.create("java/lang/Long", "(J)V", &[jvalue { j: value }])
    }
}
