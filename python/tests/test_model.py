"""The database against a model: dicts, with families, batches, snapshots and reopening."""

import shutil
import tempfile

import cairn
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule

keys = st.binary(max_size=3)
values = st.binary(max_size=40)
names = st.sampled_from(["default", "other"])


def in_range(model, start, stop, prefix):
    return {
        key: value
        for key, value in sorted(model.items())
        if (start is None or key >= start)
        and (stop is None or key < stop)
        and (prefix is None or key.startswith(prefix))
    }


class Model(RuleBasedStateMachine):
    snapshots = Bundle("snapshots")

    @initialize()
    def open(self):
        self.path = tempfile.mkdtemp()
        self.model = {"default": {}, "other": {}}
        self.taken = []
        self.reopen()

    def reopen(self):
        self.db = cairn.Db(
            self.path,
            create_if_missing=True,
            create_missing_column_families=True,
            families={"other": {"write_buffer_size": 65536}},
        )
        self.spaces = {"default": self.db, "other": self.db.family("other")}

    def teardown(self):
        self.db.close()
        shutil.rmtree(self.path)

    @rule(name=names, key=keys, value=values)
    def put(self, name, key, value):
        self.spaces[name][key] = value
        self.model[name][key] = value

    @rule(name=names, key=keys)
    def delete(self, name, key):
        try:
            del self.spaces[name][key]
        except KeyError:
            assert key not in self.model[name]
        self.model[name].pop(key, None)

    @rule(name=names, start=keys, stop=keys)
    def delete_range(self, name, start, stop):
        if start <= stop:
            self.spaces[name].delete_range(start, stop)
            for key in in_range(self.model[name], start, stop, None):
                del self.model[name][key]

    @rule(writes=st.lists(st.tuples(names, keys, st.none() | values)), fails=st.booleans())
    def batch(self, writes, fails):
        model = {name: dict(pairs) for name, pairs in self.model.items()}
        try:
            with self.db.batch() as batch:
                for name, key, value in writes:
                    if value is None:
                        batch.delete(key, family=self.spaces[name])
                        model[name].pop(key, None)
                    else:
                        batch.put(key, value, family=self.spaces[name])
                        model[name][key] = value
                if fails:
                    raise RuntimeError
        except RuntimeError:
            return
        self.model = model

    @rule(target=snapshots)
    def snapshot(self):
        state = {name: dict(pairs) for name, pairs in self.model.items()}
        self.taken.append((self.db.snapshot(), state))
        return len(self.taken) - 1

    @rule(index=snapshots, name=names, key=keys)
    def read_snapshot(self, index, name, key):
        snapshot, state = self.taken[index]
        if snapshot is not None:
            assert self.spaces[name].get(key, snapshot=snapshot) == state[name].get(key)
            found = dict(self.spaces[name].items(snapshot=snapshot))
            assert found == state[name]

    @rule(name=names, compact=st.booleans())
    def flush(self, name, compact):
        self.spaces[name].flush()
        if compact:
            self.spaces[name].compact_range()

    @rule()
    def close_and_open(self):
        self.db.close()
        self.taken = [(None, None) for _ in self.taken]
        self.reopen()

    bound = st.none() | keys

    @rule(name=names, start=bound, stop=bound, prefix=bound, reverse=st.booleans())
    def scan(self, name, start, stop, prefix, reverse):
        space, expected = self.spaces[name], in_range(self.model[name], start, stop, prefix)
        pairs = list(expected.items())[:: -1 if reverse else 1]
        bounds = {"prefix": prefix, "reverse": reverse}
        assert list(space.items(start, stop, **bounds)) == pairs
        assert list(space.keys(start, stop, **bounds)) == [key for key, _ in pairs]
        assert list(space.values(start, stop, **bounds)) == [value for _, value in pairs]

    @rule(name=names, target_key=keys)
    def seek(self, name, target_key):
        ordered = sorted(self.model[name].items())
        with self.spaces[name].cursor() as cursor:
            after = [pair for pair in ordered if pair[0] >= target_key]
            assert cursor.seek(target_key) == bool(after)
            assert cursor.item == (after[0] if after else None)
            before = [pair for pair in ordered if pair[0] <= target_key]
            assert cursor.seek_for_prev(target_key) == bool(before)
            assert cursor.item == (before[-1] if before else None)

    @rule(name=names, wanted=st.lists(keys))
    def multi_get(self, name, wanted):
        assert self.spaces[name].multi_get(wanted) == [self.model[name].get(key) for key in wanted]
        for key in wanted:
            pinned = self.spaces[name].get_pinned(key)
            assert (bytes(pinned) if pinned is not None else None) == self.model[name].get(key)


TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
