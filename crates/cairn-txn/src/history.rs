//! Flushed memtables that families keep, so that a conflict with an earlier write is found in memory.

use cairn_db::{Db, Family, FamilyDescriptor, OpenRequest};
use cairn_options::{DbOptions, FamilyOptions};
use cairn_types::Result;

/// Makes a family keep flushed memtables, unless its options set another limit.
fn keep_history(options: &mut FamilyOptions) {
    if options.max_write_buffer_size_to_maintain == 0 {
        // As much as all write buffers.
        options.max_write_buffer_size_to_maintain = -1;
    }
}

/// Opens the database of `request` with families that keep flushed memtables, and with `allow_2pc` if `two_phase`.
///
/// # Errors
///
/// Those of [`cairn_db::open()`].
pub(crate) fn open(request: &OpenRequest<'_>, two_phase: bool) -> Result<Db> {
    open_by(request, two_phase, cairn_db::open)
}

/// [`open()`] with a function that opens a database.
pub(crate) fn open_by(
    request: &OpenRequest<'_>,
    two_phase: bool,
    open: impl FnOnce(&OpenRequest<'_>) -> Result<Db>,
) -> Result<Db> {
    let mut families: Vec<FamilyDescriptor> = request.families.to_vec();
    let mut others = request.others.cloned();
    if families.iter().all(|family| family.name != "default") {
        let default = others.clone().unwrap_or_default();
        families.push(FamilyDescriptor::new("default", default));
    }
    let all = families.iter_mut().map(|family| &mut family.options);
    all.chain(&mut others).for_each(keep_history);
    let options = DbOptions {
        allow_2pc: request.options.allow_2pc || two_phase,
        ..request.options.clone()
    };
    open(&OpenRequest {
        path: request.path,
        options: &options,
        families: &families,
        others: others.as_ref(),
        read_only: request.read_only,
        world: request.world.clone(),
    })
}

/// Creates a family that keeps flushed memtables.
///
/// # Errors
///
/// Those of [`Db::create_family`].
pub(crate) fn create_family(db: &Db, name: &str, options: &FamilyOptions) -> Result<Family> {
    let mut options = options.clone();
    keep_history(&mut options);
    db.create_family(name, &options)
}
