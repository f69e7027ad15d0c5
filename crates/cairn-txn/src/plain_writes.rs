//! Writes outside of transactions that change the entries of secondary indexes: each is a transaction of its own.

use cairn_db::{Family, Record, WriteBatch};
use cairn_options::WriteOptions;
use cairn_types::Result;

use crate::options::TransactionOptions;
use crate::pessimistic::TransactionDb;
use crate::transaction::Transaction;

impl TransactionDb {
    /// Makes a write of `family` outside of transactions with `write` if it changes entries of secondary indexes; otherwise
    /// returns `None`.
    #[inline]
    pub(crate) fn write_indexed(
        &self,
        family: &Family,
        options: &WriteOptions,
        write: impl FnOnce(&mut Transaction) -> Result<()>,
    ) -> Option<Result<()>> {
        match self.options().has_indexes() {
            false => None,
            true => {
                let transaction = self.begin_plain(options);
                let is_indexed = transaction.is_indexed(Some(family));
                is_indexed.then(|| transaction.run(write))
            }
        }
    }

    /// Writes `batch` outside of transactions if it changes entries of secondary indexes; otherwise returns `None`.
    #[inline]
    pub(crate) fn write_indexed_batch(
        &self,
        batch: &WriteBatch,
        options: &WriteOptions,
    ) -> Option<Result<()>> {
        match self.options().has_indexes() {
            false => None,
            true => self.write_batch_as_transaction(batch, options),
        }
    }

    #[cold]
    fn write_batch_as_transaction(
        &self,
        batch: &WriteBatch,
        options: &WriteOptions,
    ) -> Option<Result<()>> {
        // A rejected write is not among the records.
        if let Some(error) = batch.refused() {
            return Some(Err(error.clone()));
        }
        let families = self.db().families();
        let transaction = self.begin_plain(options);
        let is_indexed = |id| {
            let family = families.iter().find(|family| family.id() == id);
            family.is_some_and(|family| transaction.is_indexed(Some(family)))
        };
        // A record that cannot be decoded is an error of the write.
        let mut written = batch.records().filter_map(|record| record.ok()?.family());
        if !written.any(is_indexed) {
            return None;
        }
        Some(transaction.run(|transaction| {
            for record in batch.records() {
                match record? {
                    Record::LogData(data) => transaction.put_log_data(data),
                    record => transaction.add_record(&record, &families)?,
                }
            }
            Ok(())
        }))
    }

    /// Begins the transaction of a write outside of transactions.
    fn begin_plain(&self, write_options: &WriteOptions) -> Transaction {
        let own = self.options();
        let options = TransactionOptions {
            skip_concurrency_control: own.skip_concurrency_control,
            ..TransactionOptions::default()
        };
        let mut transaction = self.begin_with(write_options, &options);
        transaction.set_lock_timeout(own.default_lock_timeout);
        transaction
    }
}
