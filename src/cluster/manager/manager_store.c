#include "manager_store.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

enum { APPLICATION = 0x42796d67 /* "Bymg" */, SCHEMA = 7 };

/* What is done with a row: put in its table, or taken out. */
enum {
  PUT_JOB,
  PUT_PLAN,
  PUT_EVENT,
  PUT_HELPER,
  PUT_CELLS,
  DROP_JOB,
  DROP_PLAN,
  DROP_EVENTS,
  DROP_HELPER,
  DROP_CELLS,
  DROP_PLANS,
  DROP_HELPERS,
  TRIM_EVENTS,
  PUT_LIST,
  N_DEEDS
};
static const char *const deeds[N_DEEDS] = {
    [PUT_JOB] = "INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [PUT_PLAN] = "INSERT OR REPLACE INTO plans VALUES (?, ?, ?, ?, ?, ?)",
    [PUT_EVENT] = "INSERT INTO history (job, number, time, before, after, why) VALUES (?, ?, ?, ?, ?, ?)",
    [PUT_HELPER] = "INSERT OR REPLACE INTO helpers VALUES (?, ?, ?)",
    [PUT_CELLS] = "INSERT OR REPLACE INTO cells VALUES (?, ?)",
    [DROP_JOB] = "DELETE FROM jobs WHERE job = ?",
    [DROP_PLAN] = "DELETE FROM plans WHERE job = ? AND number = ?",
    [DROP_EVENTS] = "DELETE FROM history WHERE job = ?",
    [DROP_HELPER] = "DELETE FROM helpers WHERE job = ? AND name = ?",
    [DROP_CELLS] = "DELETE FROM cells WHERE job = ?",
    [DROP_PLANS] = "DELETE FROM plans WHERE job = ?",
    [DROP_HELPERS] = "DELETE FROM helpers WHERE job = ?",
    /* As many stay as are shown. */
    [TRIM_EVENTS] = ("DELETE FROM history WHERE job = ?1 AND id NOT IN"
                     " (SELECT id FROM history WHERE job = ?1 ORDER BY id DESC LIMIT 32)"),
    [PUT_LIST] = "INSERT OR REPLACE INTO lists VALUES (?, ?)",
};

#define CELLS_TABLE "CREATE TABLE cells (job TEXT PRIMARY KEY, wish TEXT);"
/* Of revoked certificates, by the key of the authority that made them. */
#define LISTS_TABLE "CREATE TABLE lists (authority TEXT PRIMARY KEY, number INTEGER);"

static const char schema[] =
    "CREATE TABLE jobs (job TEXT PRIMARY KEY, name TEXT, hosts TEXT, root TEXT, since REAL, iterations INTEGER,"
    " sent INTEGER, numbers INTEGER, class INTEGER, left INTEGER, began REAL DEFAULT 0, owner TEXT DEFAULT '',"
    " expected INTEGER DEFAULT 0, doubted INTEGER DEFAULT 0, own_plan TEXT);"
    "CREATE TABLE plans (job TEXT, number INTEGER, plan TEXT, throughput REAL, made REAL, moved INTEGER,"
    " PRIMARY KEY (job, number));"
    "CREATE TABLE history (id INTEGER PRIMARY KEY, job TEXT, number INTEGER, time REAL, before REAL, after REAL,"
    " why TEXT);"
    "CREATE INDEX history_of ON history (job);"
    "CREATE TABLE helpers (job TEXT, name TEXT, joined INTEGER, PRIMARY KEY (job, name));" CELLS_TABLE LISTS_TABLE;

struct by_manager_store {
  sqlite3 *db;
  char *path;
  sqlite3_stmt *statements[N_DEEDS];
  bool open; /* a transaction */
  bool lost;
  bool told; /* that it is lost; each attempt while a disk is full is no news */
};

static enum banyan_status fail(const struct by_manager_store *store, enum banyan_status status) {
  return by_fail(status, "the manager's state in %s: %s", store->path, sqlite3_errmsg(store->db));
}

static enum banyan_status run(const struct by_manager_store *store, const char *sql) {
  return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK ? BANYAN_OK : fail(store, BANYAN_ERR_SYSTEM);
}

/* ---- opening */

static enum banyan_status ask_number(const struct by_manager_store *store, const char *sql, sqlite3_int64 *out) {
  sqlite3_stmt *statement;
  int code = sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL);
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  if (code == SQLITE_ROW) *out = sqlite3_column_int64(statement, 0);
  enum banyan_status status = BANYAN_OK;
  if (code == SQLITE_NOTADB)
    status = by_fail(BANYAN_ERR_PARSE, "%s is not a manager's state: name another file with --state", store->path);
  else if (code == SQLITE_BUSY)
    status =
        by_fail(BANYAN_ERR_SYSTEM, "%s is in use by another manager: stop that one, or name another file", store->path);
  else if (code != SQLITE_ROW)
    status = fail(store, BANYAN_ERR_SYSTEM);
  sqlite3_finalize(statement);
  return status;
}

static enum banyan_status make_tables(const struct by_manager_store *store) {
  char *sql = sqlite3_mprintf("BEGIN; %s PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT", schema,
                              APPLICATION, SCHEMA);
  enum banyan_status status = sql ? run(store, sql) : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the state's file");
  sqlite3_free(sql);
  return status;
}

/* What makes tables of one version those of the next. */
static const char *const to_next[SCHEMA] = {
    [1] = "BEGIN; ALTER TABLE jobs ADD COLUMN began REAL DEFAULT 0; PRAGMA user_version = 2; COMMIT",
    [2] = "BEGIN; " CELLS_TABLE "PRAGMA user_version = 3; COMMIT",
    [3] = "BEGIN; ALTER TABLE jobs ADD COLUMN owner TEXT DEFAULT ''; PRAGMA user_version = 4; COMMIT",
    [4] = "BEGIN; " LISTS_TABLE "PRAGMA user_version = 5; COMMIT",
    [5] = "BEGIN; ALTER TABLE jobs ADD COLUMN expected INTEGER DEFAULT 0;"
          " ALTER TABLE jobs ADD COLUMN doubted INTEGER DEFAULT 0; PRAGMA user_version = 6; COMMIT",
    [6] = "BEGIN; ALTER TABLE jobs ADD COLUMN own_plan TEXT; PRAGMA user_version = 7; COMMIT",
};

static enum banyan_status check_tables(const struct by_manager_store *store) {
  sqlite3_int64 application, version, tables;
  BY_TRY(ask_number(store, "PRAGMA application_id", &application));
  BY_TRY(ask_number(store, "PRAGMA user_version", &version));
  BY_TRY(ask_number(store, "SELECT count(*) FROM sqlite_master", &tables));
  if (!tables && !application) return make_tables(store);
  if (application != APPLICATION)
    return by_fail(BANYAN_ERR_PARSE, "%s is a database of something else: name another file with --state", store->path);
  for (; version > 0 && version < SCHEMA; version++) BY_TRY(run(store, to_next[version]));
  if (version == SCHEMA) return BANYAN_OK;
  return by_fail(BANYAN_ERR_PARSE,
                 "%s has version %lld and this Banyan knows %d: use the later Banyan, or another file", store->path,
                 (long long)version, SCHEMA);
}

static enum banyan_status prepare(struct by_manager_store *store) {
  /* One manager a file, so no shared memory; and no waiting for the disk but when the log is written back. */
  BY_TRY(run(store, "PRAGMA locking_mode = EXCLUSIVE"));
  sqlite3_int64 ignored;
  BY_TRY(ask_number(store, "PRAGMA application_id", &ignored));
  BY_TRY(run(store, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL"));
  BY_TRY(check_tables(store));
  for (int i = 0; i < N_DEEDS; i++)
    if (sqlite3_prepare_v2(store->db, deeds[i], -1, &store->statements[i], NULL) != SQLITE_OK)
      return fail(store, BANYAN_ERR_PARSE);
  return run(store, "BEGIN IMMEDIATE; COMMIT"); /* takes the file */
}

static enum banyan_status open_file(struct by_manager_store *store) {
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(store->path, &store->db, flags, NULL) == SQLITE_OK) return BANYAN_OK;
  int reason = sqlite3_system_errno(store->db);
  return by_fail(BANYAN_ERR_SYSTEM, "cannot open the manager's state %s: %s; --state names another file", store->path,
                 reason ? strerror(reason) : sqlite3_errmsg(store->db));
}

enum banyan_status by_manager_store_open(const char *path, struct by_manager_store **out) {
  struct by_manager_store *store = calloc(1, sizeof *store);
  if (!store || !(store->path = strdup(path))) {
    free(store);
    return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the state's file");
  }
  enum banyan_status status = open_file(store);
  if (status == BANYAN_OK) status = prepare(store);
  if (status == BANYAN_OK)
    *out = store;
  else
    by_manager_store_close(store);
  return status;
}

void by_manager_store_close(struct by_manager_store *store) {
  if (!store) return;
  by_manager_store_commit(store);
  for (int i = 0; i < N_DEEDS; i++) sqlite3_finalize(store->statements[i]);
  sqlite3_close(store->db);
  free(store->path);
  free(store);
}

/* ---- reading */

static const char *text_of(sqlite3_stmt *s, int column) {
  const char *text = (const char *)sqlite3_column_text(s, column);
  return text ? text : "";
}

static void read_job(sqlite3_stmt *s, struct by_manager_row *row) {
  row->table = BY_ROW_JOB;
  row->name = text_of(s, 1);
  row->of_job.hosts = text_of(s, 2);
  row->of_job.root = text_of(s, 3);
  row->of_job.since = sqlite3_column_double(s, 4);
  row->of_job.iterations = (uint64_t)sqlite3_column_int64(s, 5);
  row->of_job.sent = (uint64_t)sqlite3_column_int64(s, 6);
  row->of_job.numbers = (uint64_t)sqlite3_column_int64(s, 7);
  row->of_job.class_ = (uint32_t)sqlite3_column_int64(s, 8);
  row->of_job.left = sqlite3_column_int64(s, 9) != 0;
  row->of_job.began = sqlite3_column_double(s, 10);
  row->of_job.owner = text_of(s, 11);
  row->of_job.expected = (uint64_t)sqlite3_column_int64(s, 12);
  row->of_job.doubted = sqlite3_column_int64(s, 13) != 0;
  row->of_job.own_plan = (const char *)sqlite3_column_text(s, 14);
}

static void read_plan(sqlite3_stmt *s, struct by_manager_row *row) {
  row->table = BY_ROW_PLAN;
  row->plan.number = (uint64_t)sqlite3_column_int64(s, 1);
  row->plan.plan = text_of(s, 2);
  row->plan.throughput = sqlite3_column_double(s, 3);
  row->plan.made = sqlite3_column_double(s, 4);
  row->plan.moved = sqlite3_column_int64(s, 5) != 0;
}

static void read_event(sqlite3_stmt *s, struct by_manager_row *row) {
  row->table = BY_ROW_HISTORY;
  row->history.number = (uint64_t)sqlite3_column_int64(s, 1);
  row->history.time = sqlite3_column_double(s, 2);
  row->history.before = sqlite3_column_double(s, 3);
  row->history.after = sqlite3_column_double(s, 4);
  row->history.why = text_of(s, 5);
}

static void read_helper(sqlite3_stmt *s, struct by_manager_row *row) {
  row->table = BY_ROW_HELPER;
  row->name = text_of(s, 1);
  row->helper.joined = sqlite3_column_int64(s, 2) != 0;
}

static void read_cells(sqlite3_stmt *s, struct by_manager_row *row) {
  row->table = BY_ROW_CELLS;
  row->cells.wish = text_of(s, 1);
}

enum banyan_status by_manager_store_load(struct by_manager_store *store,
                                         void (*row)(void *context, const struct by_manager_row *row), void *context) {
  static const struct {
    const char *sql;
    void (*read)(sqlite3_stmt *s, struct by_manager_row *row);
  } tables[] = {
      {"SELECT * FROM jobs ORDER BY since, job", read_job},
      {"SELECT * FROM plans ORDER BY job, number", read_plan},
      {"SELECT job, number, time, before, after, why FROM history ORDER BY id", read_event},
      {"SELECT * FROM helpers ORDER BY job, name", read_helper},
      {"SELECT * FROM cells ORDER BY job", read_cells},
  };
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    sqlite3_stmt *s;
    int code = sqlite3_prepare_v2(store->db, tables[i].sql, -1, &s, NULL);
    while (code == SQLITE_OK || code == SQLITE_ROW) {
      code = sqlite3_step(s);
      if (code != SQLITE_ROW) break;
      struct by_manager_row read = {.job = text_of(s, 0)};
      tables[i].read(s, &read);
      row(context, &read);
    }
    enum banyan_status status = code == SQLITE_DONE ? BANYAN_OK : fail(store, BANYAN_ERR_PARSE);
    sqlite3_finalize(s);
    BY_TRY(status);
  }
  return BANYAN_OK;
}

enum banyan_status by_manager_store_get_list(struct by_manager_store *store, const char *authority, int64_t *number) {
  sqlite3_stmt *s;
  int code = sqlite3_prepare_v2(store->db, "SELECT number FROM lists WHERE authority = ?", -1, &s, NULL);
  if (code == SQLITE_OK) sqlite3_bind_text(s, 1, authority, -1, SQLITE_STATIC);
  if (code == SQLITE_OK) code = sqlite3_step(s);
  *number = code == SQLITE_ROW ? sqlite3_column_int64(s, 0) : -1;
  enum banyan_status status = code == SQLITE_ROW || code == SQLITE_DONE ? BANYAN_OK : fail(store, BANYAN_ERR_PARSE);
  sqlite3_finalize(s);
  return status;
}

/* ---- writing */

static void lose(struct by_manager_store *store) {
  if (!store->told)
    by_error("manager", "the state is not kept in %s any more: %s; the manager goes on, and tries again", store->path,
             sqlite3_errmsg(store->db));
  store->lost = store->told = true;
  if (!sqlite3_get_autocommit(store->db)) sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
  store->open = false;
}

static bool begin(struct by_manager_store *store) {
  if (store->open) return true;
  store->open = sqlite3_exec(store->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;
  if (!store->open) lose(store);
  return store->open;
}

static void bind_text(sqlite3_stmt *s, int at, const char *text) {
  sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC);
}

static void do_it(struct by_manager_store *store, int deed) {
  sqlite3_stmt *s = store->statements[deed];
  int code = sqlite3_step(s);
  if (code != SQLITE_DONE) lose(store);
  sqlite3_reset(s);
  sqlite3_clear_bindings(s);
}

static void put(struct by_manager_store *store, const struct by_manager_row *row) {
  sqlite3_stmt *s = store->statements[row->table]; /* the deeds that put stand in the order of the tables */
  bind_text(s, 1, row->job);
  switch (row->table) {
  case BY_ROW_JOB:
    bind_text(s, 2, row->name);
    bind_text(s, 3, row->of_job.hosts);
    bind_text(s, 4, row->of_job.root);
    sqlite3_bind_double(s, 5, row->of_job.since);
    sqlite3_bind_int64(s, 6, (sqlite3_int64)row->of_job.iterations);
    sqlite3_bind_int64(s, 7, (sqlite3_int64)row->of_job.sent);
    sqlite3_bind_int64(s, 8, (sqlite3_int64)row->of_job.numbers);
    sqlite3_bind_int64(s, 9, row->of_job.class_);
    sqlite3_bind_int64(s, 10, row->of_job.left);
    sqlite3_bind_double(s, 11, row->of_job.began);
    bind_text(s, 12, row->of_job.owner ? row->of_job.owner : "");
    sqlite3_bind_int64(s, 13, (sqlite3_int64)row->of_job.expected);
    sqlite3_bind_int64(s, 14, row->of_job.doubted);
    bind_text(s, 15, row->of_job.own_plan);
    break;
  case BY_ROW_PLAN:
    sqlite3_bind_int64(s, 2, (sqlite3_int64)row->plan.number);
    bind_text(s, 3, row->plan.plan);
    sqlite3_bind_double(s, 4, row->plan.throughput);
    sqlite3_bind_double(s, 5, row->plan.made);
    sqlite3_bind_int64(s, 6, row->plan.moved);
    break;
  case BY_ROW_HISTORY:
    sqlite3_bind_int64(s, 2, (sqlite3_int64)row->history.number);
    sqlite3_bind_double(s, 3, row->history.time);
    sqlite3_bind_double(s, 4, row->history.before);
    sqlite3_bind_double(s, 5, row->history.after);
    bind_text(s, 6, row->history.why);
    break;
  case BY_ROW_HELPER:
    bind_text(s, 2, row->name);
    sqlite3_bind_int64(s, 3, row->helper.joined);
    break;
  case BY_ROW_CELLS: bind_text(s, 2, row->cells.wish); break;
  }
  do_it(store, (int)row->table);
  if (row->table != BY_ROW_HISTORY) return;
  bind_text(store->statements[TRIM_EVENTS], 1, row->job);
  do_it(store, TRIM_EVENTS);
}

static void drop(struct by_manager_store *store, const struct by_manager_row *row) {
  int deed = DROP_JOB + (int)row->table;
  bind_text(store->statements[deed], 1, row->job);
  if (row->table == BY_ROW_PLAN) sqlite3_bind_int64(store->statements[deed], 2, (sqlite3_int64)row->plan.number);
  if (row->table == BY_ROW_HELPER) bind_text(store->statements[deed], 2, row->name);
  do_it(store, deed);
  static const int with_job[] = {DROP_EVENTS, DROP_PLANS, DROP_HELPERS, DROP_CELLS};
  for (size_t i = 0; row->table == BY_ROW_JOB && i < sizeof with_job / sizeof *with_job; i++) {
    bind_text(store->statements[with_job[i]], 1, row->job);
    do_it(store, with_job[i]);
  }
}

void by_manager_store_keep(struct by_manager_store *store, const struct by_manager_row *row) {
  if (store->lost || !begin(store)) return;
  if (row->gone)
    drop(store, row);
  else
    put(store, row);
}

void by_manager_store_keep_list(struct by_manager_store *store, const char *authority, int64_t number) {
  if (store->lost || !begin(store)) return;
  bind_text(store->statements[PUT_LIST], 1, authority);
  sqlite3_bind_int64(store->statements[PUT_LIST], 2, number);
  do_it(store, PUT_LIST);
}

void by_manager_store_commit(struct by_manager_store *store) {
  if (!store->open) return;
  store->open = false;
  if (sqlite3_exec(store->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK) lose(store);
  if (!store->told || store->lost) return;
  by_warn("manager", "the state is kept in %s again", store->path);
  store->told = false;
}

bool by_manager_store_lost(const struct by_manager_store *store) {
  return store->lost;
}

void by_manager_store_renew(struct by_manager_store *store) {
  store->lost = false;
  if (begin(store) &&
      sqlite3_exec(store->db, "DELETE FROM jobs; DELETE FROM plans; DELETE FROM helpers; DELETE FROM cells", NULL, NULL,
                   NULL) != SQLITE_OK)
    lose(store);
}
