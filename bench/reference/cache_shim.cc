// RocksDB's block caches through C functions, for `cairn bench --benchmarks cache` and `blobcache`.
//
// c.h creates and resizes caches, but has no lookup, no insertion, and no ratios of the priority pools. `cargo xtask
// reference` compiles this file with RocksDB's headers and flags and links it with the library that it built. Values
// are allocated by malloc, and a number is written at the start and every 4 KiB, so that their pages are resident.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "rocksdb/advanced_cache.h"
#include "rocksdb/cache.h"

using rocksdb::Cache;
using rocksdb::HyperClockCacheOptions;
using rocksdb::LRUCacheOptions;
using rocksdb::MemoryAllocator;
using rocksdb::Slice;

// The definition in db/c.cc, which no header has: handles made here are handles of c.h.
struct rocksdb_cache_t {
  std::shared_ptr<Cache> rep;
};

namespace {

constexpr size_t kPage = 4096;

void FreeValue(Cache::ObjectPtr value, MemoryAllocator*) { std::free(value); }

const Cache::CacheItemHelper kDataBlock(rocksdb::CacheEntryRole::kDataBlock, FreeValue);

Slice KeyOf(const uint64_t* key) { return Slice(reinterpret_cast<const char*>(key), 2 * sizeof(uint64_t)); }

}  // namespace

extern "C" {

// Returns an LRU cache; a negative `shard_bits` selects RocksDB's default. Freed by rocksdb_cache_destroy.
rocksdb_cache_t* cairn_shim_lru(size_t capacity, int shard_bits, double high_ratio, double low_ratio) {
  LRUCacheOptions options;
  options.capacity = capacity;
  options.num_shard_bits = shard_bits;
  options.high_pri_pool_ratio = high_ratio;
  options.low_pri_pool_ratio = low_ratio;
  return new rocksdb_cache_t{options.MakeSharedCache()};
}

// Returns a HyperClock cache of the recommended kind, whose table grows.
rocksdb_cache_t* cairn_shim_hyper_clock(size_t capacity, int shard_bits) {
  HyperClockCacheOptions options(capacity, /*estimated_entry_charge=*/0, shard_bits);
  return new rocksdb_cache_t{options.MakeSharedCache()};
}

// Looks up the key of two words. True if it is cached; `head` is then the first word of the value.
bool cairn_shim_lookup(rocksdb_cache_t* cache, const uint64_t* key, uint64_t* head) {
  Cache* rep = cache->rep.get();
  Cache::Handle* handle = rep->Lookup(KeyOf(key), &kDataBlock);
  if (handle == nullptr) {
    return false;
  }
  std::memcpy(head, rep->Value(handle), sizeof(*head));
  rep->Release(handle);
  return true;
}

// Inserts a value of `length` bytes, at least 8, with `head` at its start and every 4 KiB. False if the cache rejects it.
bool cairn_shim_insert(rocksdb_cache_t* cache, const uint64_t* key, uint64_t head, size_t length) {
  void* value = std::malloc(length);
  if (value == nullptr) {
    return false;
  }
  for (size_t at = 0; at + sizeof(head) <= length; at += kPage) {
    std::memcpy(static_cast<char*>(value) + at, &head, sizeof(head));
  }
  // On failure the cache leaves the value to the caller.
  if (cache->rep->Insert(KeyOf(key), value, &kDataBlock, length).ok()) {
    return true;
  }
  std::free(value);
  return false;
}

}  // extern "C"
