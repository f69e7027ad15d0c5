//! Options by keyword, with RocksDB's names.

use std::sync::Arc;

use cairn::options::Options as _;
use cairn::{
    CompactRangeOptions, DbOptions, FamilyOptions, FlushOptions, IngestExternalFileOptions,
    Options, ReadOptions, SequenceNumber, TableOptions, WriteOptions,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::errors::{invalid, raise};
use crate::merge::MergeOperator;

/// A limit on the memory of one or several databases: block cache, memtables, indexes and filters.
///
/// Pass it as `memory_budget=` to each `Db`. A number instead makes a budget for that database alone.
#[pyclass(frozen, module = "cairn")]
pub struct MemoryBudget(Arc<cairn::MemoryBudget>);

#[pymethods]
impl MemoryBudget {
    /// A budget of `size` bytes, or without it a share of the memory that the machine has available.
    #[new]
    #[pyo3(signature = (size=None))]
    fn new(py: Python<'_>, size: Option<usize>) -> PyResult<MemoryBudget> {
        let made = match size {
            Some(size) => cairn::MemoryBudget::new(size),
            None => cairn::MemoryBudget::automatic(),
        };
        made.map(MemoryBudget).map_err(|error| raise(py, error))
    }

    /// The size in bytes.
    #[getter]
    fn size(&self) -> usize {
        self.0.bytes()
    }

    #[setter]
    fn set_size(&self, py: Python<'_>, size: usize) -> PyResult<()> {
        let changed = py.detach(|| self.0.set_budget(size));
        changed.map_err(|error| raise(py, error))
    }

    fn __repr__(&self) -> String {
        format!("MemoryBudget({})", self.0.bytes())
    }
}

/// The text form of `value`, as in an OPTIONS file.
fn text(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(value.is_true().to_string());
    }
    if let Ok(value) = value.cast::<PyString>() {
        return Ok(value.to_str()?.to_owned());
    }
    if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        return Ok(value.str()?.to_str()?.to_owned());
    }
    if let Ok(members) = value.cast::<PyDict>() {
        let mut text = String::from("{");
        for (member, value) in members.iter() {
            let member: String = member.extract()?;
            text.push_str(&format!("{member}={};", self::text(&member, &value)?));
        }
        return Ok(text + "}");
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let mut items = Vec::new();
        for item in value.try_iter()? {
            items.push(text(name, &item?)?);
        }
        return Ok(items.join(":"));
    }
    let class = value.get_type();
    Err(PyTypeError::new_err(format!(
        "{name}: expected a number, bool, str, dict or list, found {class}"
    )))
}

fn names<O: cairn::options::Options>() -> impl Iterator<Item = &'static str> {
    O::rows().iter().map(|row| row.name)
}

/// The error for an unknown option, with the nearest name.
fn unknown<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> PyErr {
    let nearest = known
        .map(|known| (distance(name, known), known))
        .min()
        .filter(|(distance, known)| *distance <= known.len().max(name.len()) / 2);
    match nearest {
        Some((_, nearest)) => invalid(&format!("no option {name:?}; did you mean {nearest:?}?")),
        None => invalid(&format!("no option {name:?}")),
    }
}

/// The number of insertions, deletions and replacements that make `b` of `a`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Sets an option of `family` from Python, or returns false if `name` is not one.
fn set_of_family(
    family: &mut FamilyOptions,
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    let py = value.py();
    if name == "merge_operator"
        && let Ok(operator) = value.cast::<MergeOperator>()
    {
        family.merge_operator = Some(operator.get().operator());
        return Ok(true);
    }
    let set = if family.knows(name) {
        family.set(name, &text(name, value)?)
    } else if TableOptions::row(name).is_some() {
        family.table.set(name, &text(name, value)?)
    } else {
        return Ok(false);
    };
    set.map_err(|error| raise(py, error))?;
    Ok(true)
}

/// The options of a family.
pub fn family_options(
    given: Option<&Bound<'_, PyDict>>,
    defaults: FamilyOptions,
) -> PyResult<FamilyOptions> {
    let mut family = defaults;
    for (name, value) in given.iter().flat_map(|given| given.iter()) {
        let name: String = name.extract()?;
        if !set_of_family(&mut family, &name, &value)? {
            let known = names::<FamilyOptions>().chain(names::<TableOptions>());
            return Err(unknown(&name, known));
        }
    }
    Ok(family)
}

/// The options of a database and its families.
pub fn open_options(given: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    let mut options = Options::default();
    for (name, value) in given.iter().flat_map(|given| given.iter()) {
        let py = value.py();
        let name: String = name.extract()?;
        if let ("memory_budget", Ok(budget)) = (name.as_str(), value.cast::<MemoryBudget>()) {
            options.db.memory_budget = Some(budget.get().0.clone());
        } else if DbOptions::row(&name).is_some() {
            let set = options.db.set(&name, &text(&name, &value)?);
            set.map_err(|error| raise(py, error))?;
        } else if !set_of_family(&mut options.family, &name, &value)? {
            let known = names::<DbOptions>()
                .chain(names::<FamilyOptions>())
                .chain(names::<TableOptions>());
            return Err(unknown(&name, known));
        }
    }
    Ok(options)
}

/// The names of the options of `Db`: those of the database, of families and of tables.
#[pyfunction]
pub fn option_names() -> Vec<&'static str> {
    names::<DbOptions>()
        .chain(names::<FamilyOptions>())
        .chain(names::<TableOptions>())
        .collect()
}

/// Sets the options of one operation.
fn set_all<O: cairn::options::Options>(
    options: &mut O,
    given: &Bound<'_, PyDict>,
    mut special: impl FnMut(&mut O, &str, &Bound<'_, PyAny>) -> PyResult<bool>,
) -> PyResult<()> {
    for (name, value) in given.iter() {
        let name: String = name.extract()?;
        if special(options, &name, &value)? {
            continue;
        }
        if O::row(&name).is_none() {
            return Err(unknown(&name, names::<O>()));
        }
        let set = options.set(&name, &text(&name, &value)?);
        set.map_err(|error| raise(value.py(), error))?;
    }
    Ok(())
}

/// The options of a read, or `None` for the defaults.
pub fn read_options(
    snapshot: Option<SequenceNumber>,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<Option<ReadOptions>> {
    let given = given.filter(|given| !given.is_empty());
    if snapshot.is_none() && given.is_none() {
        return Ok(None);
    }
    let mut options = ReadOptions::default();
    if let Some(given) = given {
        set_all(&mut options, given, |options, name, value| {
            let bytes = || {
                value
                    .cast::<PyBytes>()
                    .map(|bytes| bytes.as_bytes().to_vec())
            };
            match name {
                "snapshot" => return Err(unknown("snapshot", std::iter::empty())),
                "iterate_lower_bound" => options.iterate_lower_bound = Some(bytes()?),
                "iterate_upper_bound" => options.iterate_upper_bound = Some(bytes()?),
                "timestamp" => options.timestamp = Some(bytes()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
    }
    if snapshot.is_some() {
        options.snapshot = snapshot;
    }
    Ok(Some(options))
}

/// True if `given` has an option that decides how a scan uses prefixes.
pub fn chooses_prefix_mode(given: Option<&Bound<'_, PyDict>>) -> PyResult<bool> {
    let Some(given) = given else {
        return Ok(false);
    };
    for name in [
        "auto_prefix_mode",
        "total_order_seek",
        "prefix_same_as_start",
    ] {
        if given.contains(name)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The options of a write.
pub fn write_options(sync: bool, given: Option<&Bound<'_, PyDict>>) -> PyResult<WriteOptions> {
    let mut options = WriteOptions {
        sync,
        ..WriteOptions::default()
    };
    if let Some(given) = given {
        set_all(&mut options, given, |options, name, value| {
            if name == "disable_wal" {
                options.disable_wal = value.extract()?;
            }
            Ok(name == "disable_wal")
        })?;
    }
    Ok(options)
}

macro_rules! simple {
    ($($name:ident: $options:ty;)*) => {$(
        pub fn $name(given: Option<&Bound<'_, PyDict>>) -> PyResult<$options> {
            let mut options = <$options>::default();
            if let Some(given) = given {
                set_all(&mut options, given, |_, _, _| Ok(false))?;
            }
            Ok(options)
        }
    )*};
}

simple! {
    flush_options: FlushOptions;
    compact_options: CompactRangeOptions;
    ingest_options: IngestExternalFileOptions;
}

/// Options of a running database, as text.
pub fn changes(given: &Bound<'_, PyDict>) -> PyResult<Vec<(String, String)>> {
    let changes = given.iter().map(|(name, value)| {
        let name: String = name.extract()?;
        let value = text(&name, &value)?;
        Ok((name, value))
    });
    changes.collect()
}
