//! Opening a database that follows another one: from its MANIFEST to a [`Db`](crate::Db) without entries of logs.
//!
//! No file of the other database is changed, and none is locked. The LOG is in a directory of its own. The entries of
//! the logs arrive through [`crate::follow`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_observe::Logger;
use cairn_observe::threads::{Operation, Tracker};
use cairn_options::DbOptions;
use cairn_platform::World;
use cairn_platform::fs::FileLock;
use cairn_types::{Error, Result};
use cairn_version::manifest::Recovered;

use super::{
    Foundation, OpenRequest, assemble, check_numbers, files, match_families, with_listeners,
};
use crate::catalog::sources::{create_dir, warn_of_unsynced};
use crate::context::Follows;
use crate::files::inherited_files;
use crate::shared::Shared;

/// The additional state of a secondary instance or a follower.
#[derive(Clone)]
pub(crate) struct SecondaryInstance {
    /// The directory of its LOG.
    pub(crate) dir: PathBuf,
    pub(crate) follows: Follows,
}

impl SecondaryInstance {
    /// Creates the info log.
    pub(super) fn open_log(&self, world: &World, options: &DbOptions) -> Result<Logger> {
        let names = world.fs.list(&self.dir)?;
        super::open_log(world, &self.dir, options, &names)
    }
}

/// Opens the database of `request` with the families of `recovered`, without tables or entries. The LOG is in `own`.
///
/// # Errors
///
/// `InvalidArgument` if both databases have the same directory, if a family is missing, or for invalid options;
/// `IoError`.
pub(crate) fn open_empty(
    request: &OpenRequest<'_>,
    own: &Path,
    follows: Follows,
    lock: Option<Box<dyn FileLock>>,
    recovered: &Recovered,
) -> Result<Arc<Shared>> {
    let options = DbOptions {
        create_missing_column_families: false,
        create_if_missing: false,
        ..request.options.clone()
    };
    options.validate()?;
    options.check_supported()?;
    let open = OpenRequest {
        options: &options,
        read_only: true,
        world: inherited_files::world_of(&options, request.world.clone()),
        ..*request
    };
    let fs = &*open.world.fs;
    let dir = fs.canonical(open.path)?;
    let unsynced = create_dir(fs, own, false)?;
    let own = fs.canonical(own)?;
    if own == dir {
        return Err(Error::invalid_argument(format!(
            "{} is the directory of the database that is followed: a secondary instance needs one of its own",
            own.display()
        )));
    }
    let sanitized = options.clone().sanitize();
    let threads = Tracker::new(
        options.enable_thread_tracking,
        &dir.to_string_lossy(),
        open.world.clock.clone(),
    );
    let opening = threads.begin("", Operation::DbOpen);
    check_numbers(recovered)?;
    let open = with_listeners(&open);
    let names = fs.list(&dir)?;
    let recorded = files::RecordedOptions::new(&open, &names);
    let named = match_families(&open, &sanitized, recovered, &recorded)?;
    let foundation = Foundation {
        options: sanitized,
        dir,
        lock,
        threads,
        replay_above: BTreeMap::new(),
        policies: super::Policies::default(),
        secondary: Some(SecondaryInstance { dir: own, follows }),
    };
    // Without files, which the first publication adds once they are open.
    let named = named.into_iter().map(|(family, options, version)| {
        let levels = version.num_levels();
        let empty = cairn_version::Version::empty(version.order().clone(), levels);
        (family, options, empty)
    });
    let shared = assemble(&open, foundation, recovered, named.collect(), &names)?;
    recorded.log_passed_over(&shared.context.info);
    warn_of_unsynced(&shared.context.info, &unsynced);
    let shared = Arc::new(shared);
    if let Some(buffers) = &shared.writes.buffers {
        let weak = Arc::downgrade(&shared);
        buffers.register(weak);
    }
    if let Some(budget) = &shared.budget {
        let weak = Arc::downgrade(&shared);
        budget.of.register(weak);
    }
    drop(opening);
    Ok(shared)
}
