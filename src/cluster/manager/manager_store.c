/* Stores the manager's rows in SQLite, by a table of columns for each kind of row. */
#include "manager_store.h"

#include <sqlite3.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "log.h"

enum { APPLICATION = 0x42796d67 /* The text "Bymg". */, SCHEMA = 10 };

/* The type and position of a column's value in a row. A missing text is "", except for MAYBE. */
struct column {
  enum { TEXT, MAYBE, REAL, COUNT, SMALL, FLAG } kind;
  size_t at;
};
#define COLUMN(kind, field)                                                                                            \
  { kind, offsetof(struct by_manager_row, field) }

/* The tables, each after those to which it refers. The first column of each is the job. */
enum { N_TABLES = BY_ROW_GRANT + 1, MAX_COLUMNS = 15 };
static const struct table {
  const char *put, *clear; /* `clear` deletes all rows of a job. */
  const char *drop;        /* Deletes the row of a job that the second column names; NULL: a job has at most one row. */
  const char *load;
  int n;
  struct column columns[MAX_COLUMNS];
} tables[N_TABLES] = {
    [BY_ROW_JOB] = {.put = "INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    .clear = "DELETE FROM jobs WHERE job = ?",
                    .load = "SELECT * FROM jobs ORDER BY since, job",
                    .n = 15,
                    .columns = {COLUMN(TEXT, job), COLUMN(TEXT, name), COLUMN(TEXT, of_job.hosts),
                                COLUMN(TEXT, of_job.root), COLUMN(REAL, of_job.since), COLUMN(COUNT, of_job.iterations),
                                COLUMN(COUNT, of_job.sent), COLUMN(COUNT, of_job.numbers), COLUMN(SMALL, of_job.class_),
                                COLUMN(FLAG, of_job.left), COLUMN(REAL, of_job.began), COLUMN(TEXT, of_job.owner),
                                COLUMN(COUNT, of_job.expected), COLUMN(FLAG, of_job.is_void),
                                COLUMN(MAYBE, of_job.own_plan)}},
    [BY_ROW_PLAN] = {.put = "INSERT OR REPLACE INTO plans VALUES (?, ?, ?, ?, ?, ?)",
                     .clear = "DELETE FROM plans WHERE job = ?",
                     .drop = "DELETE FROM plans WHERE job = ? AND number = ?",
                     .load = "SELECT * FROM plans ORDER BY job, number",
                     .n = 6,
                     .columns = {COLUMN(TEXT, job), COLUMN(COUNT, plan.number), COLUMN(TEXT, plan.plan),
                                 COLUMN(REAL, plan.throughput), COLUMN(REAL, plan.made), COLUMN(FLAG, plan.moved)}},
    [BY_ROW_HISTORY] = {.put = "INSERT INTO history (job, number, time, before, after, why) VALUES (?, ?, ?, ?, ?, ?)",
                        .clear = "DELETE FROM history WHERE job = ?",
                        .load = "SELECT job, number, time, before, after, why FROM history ORDER BY id",
                        .n = 6,
                        .columns = {COLUMN(TEXT, job), COLUMN(COUNT, history.number), COLUMN(REAL, history.time),
                                    COLUMN(REAL, history.before), COLUMN(REAL, history.after),
                                    COLUMN(TEXT, history.why)}},
    [BY_ROW_HELPER] = {.put = "INSERT OR REPLACE INTO helpers VALUES (?, ?, ?)",
                       .clear = "DELETE FROM helpers WHERE job = ?",
                       .drop = "DELETE FROM helpers WHERE job = ? AND name = ?",
                       .load = "SELECT * FROM helpers ORDER BY job, name",
                       .n = 3,
                       .columns = {COLUMN(TEXT, job), COLUMN(TEXT, name), COLUMN(FLAG, helper.joined)}},
    [BY_ROW_CELLS] = {.put = "INSERT OR REPLACE INTO cells VALUES (?, ?)",
                      .clear = "DELETE FROM cells WHERE job = ?",
                      .load = "SELECT * FROM cells ORDER BY job",
                      .n = 2,
                      .columns = {COLUMN(TEXT, job), COLUMN(TEXT, cells.request)}},
    [BY_ROW_SERVER] = {.put = "INSERT OR REPLACE INTO servers VALUES (?, ?, ?, ?)",
                       .clear = "DELETE FROM servers WHERE job = ?",
                       .drop = "DELETE FROM servers WHERE job = ? AND name = ?",
                       .load = "SELECT * FROM servers ORDER BY job, name",
                       .n = 4,
                       .columns = {COLUMN(TEXT, job), COLUMN(TEXT, name), COLUMN(FLAG, helper.joined),
                                   COLUMN(SMALL, helper.trees)}},
    [BY_ROW_GRANT] = {.put = "INSERT OR REPLACE INTO grants VALUES (?, ?, ?)",
                      .clear = "DELETE FROM grants WHERE job = ?",
                      .drop = "DELETE FROM grants WHERE job = ? AND number = ?",
                      .load = "SELECT * FROM grants ORDER BY job, number",
                      .n = 3,
                      .columns = {COLUMN(TEXT, job), COLUMN(COUNT, grant.number), COLUMN(TEXT, grant.cells)}},
};

/* Keeps as many events as are shown. */
static const char trim_events[] = "DELETE FROM history WHERE job = ?1 AND id NOT IN"
                                  " (SELECT id FROM history WHERE job = ?1 ORDER BY id DESC LIMIT 32)";
static const char put_list[] = "INSERT OR REPLACE INTO lists VALUES (?, ?)";
static const char put_network[] = "INSERT OR REPLACE INTO network VALUES (1, ?)";

#define CELLS_TABLE "CREATE TABLE cells (job TEXT PRIMARY KEY, wish TEXT);"
/* Numbers of revocation lists by the key of their authority. */
#define LISTS_TABLE "CREATE TABLE lists (authority TEXT PRIMARY KEY, number INTEGER);"

#define GRANTS_TABLES                                                                                                  \
  "CREATE TABLE servers (job TEXT, name TEXT, joined INTEGER, trees INTEGER, PRIMARY KEY (job, name));"                \
  "CREATE TABLE grants (job TEXT, number INTEGER, cells TEXT, PRIMARY KEY (job, number));"

/* One row with the topology that agents have reported, as JSON. */
#define NETWORK_TABLE "CREATE TABLE network (id INTEGER PRIMARY KEY, topology TEXT);"

static const char schema[] =
    "CREATE TABLE jobs (job TEXT PRIMARY KEY, name TEXT, hosts TEXT, root TEXT, since REAL, iterations INTEGER,"
    " sent INTEGER, numbers INTEGER, class INTEGER, left INTEGER, began REAL DEFAULT 0, owner TEXT DEFAULT '',"
    " expected INTEGER DEFAULT 0, doubted INTEGER DEFAULT 0, own_plan TEXT);"
    "CREATE TABLE plans (job TEXT, number INTEGER, plan TEXT, throughput REAL, made REAL, moved INTEGER,"
    " PRIMARY KEY (job, number));"
    "CREATE TABLE history (id INTEGER PRIMARY KEY, job TEXT, number INTEGER, time REAL, before REAL, after REAL,"
    " why TEXT);"
    "CREATE INDEX history_of ON history (job);"
    "CREATE TABLE helpers (job TEXT, name TEXT, joined INTEGER, PRIMARY KEY (job, name));" CELLS_TABLE LISTS_TABLE
        GRANTS_TABLES NETWORK_TABLE;

struct by_manager_store {
  sqlite3 *db;
  char *path;
  sqlite3_stmt *put[N_TABLES], *clear[N_TABLES], *drop[N_TABLES], *trim_events, *put_list, *put_network;
  bool open; /* A transaction is open. */
  bool lost;
  bool notified; /* The loss was logged, once for all attempts while a disk is full. */
};

static enum banyan_status fail_sqlite(const struct by_manager_store *store, enum banyan_status status) {
  int code = sqlite3_errcode(store->db) & 0xff;
  bool is_damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
  return by_fail(status, "the manager's state in %s%s: %s%s", store->path, is_damaged ? " is damaged" : "",
                 sqlite3_errmsg(store->db),
                 is_damaged ? ". Restore a copy, or move the file away: the manager then begins with an empty one, and "
                              "agents report the jobs that run again"
                            : "");
}

static enum banyan_status run_sql(const struct by_manager_store *store, const char *sql) {
  return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK ? BANYAN_OK
                                                                     : fail_sqlite(store, BANYAN_ERR_SYSTEM);
}

/* ---- opening */

static enum banyan_status query_number(const struct by_manager_store *store, const char *sql, sqlite3_int64 *out) {
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
    status = fail_sqlite(store, BANYAN_ERR_SYSTEM);
  sqlite3_finalize(statement);
  return status;
}

static enum banyan_status make_tables(const struct by_manager_store *store) {
  char *sql = sqlite3_mprintf("BEGIN; %s PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT", schema,
                              APPLICATION, SCHEMA);
  enum banyan_status status =
      sql ? run_sql(store, sql) : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the state's file");
  sqlite3_free(sql);
  return status;
}

/* Statements that convert the tables of a version to the next one. */
static const char *const to_next[SCHEMA] = {
    [1] = "BEGIN; ALTER TABLE jobs ADD COLUMN began REAL DEFAULT 0; PRAGMA user_version = 2; COMMIT",
    [2] = "BEGIN; " CELLS_TABLE "PRAGMA user_version = 3; COMMIT",
    [3] = "BEGIN; ALTER TABLE jobs ADD COLUMN owner TEXT DEFAULT ''; PRAGMA user_version = 4; COMMIT",
    [4] = "BEGIN; " LISTS_TABLE "PRAGMA user_version = 5; COMMIT",
    [5] = "BEGIN; ALTER TABLE jobs ADD COLUMN expected INTEGER DEFAULT 0;"
          " ALTER TABLE jobs ADD COLUMN doubted INTEGER DEFAULT 0; PRAGMA user_version = 6; COMMIT",
    [6] = "BEGIN; ALTER TABLE jobs ADD COLUMN own_plan TEXT; PRAGMA user_version = 7; COMMIT",
    [7] = "BEGIN; UPDATE cells SET wish = replace(wish, '{\"say\":\"wish\",', '{\"type\":\"reserve\",');"
          " PRAGMA user_version = 8; COMMIT",
    [8] = "BEGIN; " GRANTS_TABLES "PRAGMA user_version = 9; COMMIT",
    [9] = "BEGIN; " NETWORK_TABLE "PRAGMA user_version = 10; COMMIT",
};

static enum banyan_status check_tables(const struct by_manager_store *store) {
  sqlite3_int64 application, version, existing;
  BY_TRY(query_number(store, "PRAGMA application_id", &application));
  BY_TRY(query_number(store, "PRAGMA user_version", &version));
  BY_TRY(query_number(store, "SELECT count(*) FROM sqlite_master", &existing));
  if (!existing && !application) return make_tables(store);
  if (application != APPLICATION)
    return by_fail(BANYAN_ERR_PARSE, "%s is a database of something else: name another file with --state", store->path);
  for (; version > 0 && version < SCHEMA; version++) BY_TRY(run_sql(store, to_next[version]));
  if (version == SCHEMA) return BANYAN_OK;
  return by_fail(BANYAN_ERR_PARSE,
                 "%s has version %lld and this Banyan knows %d: use the later Banyan, or another file", store->path,
                 (long long)version, SCHEMA);
}

static enum banyan_status make_statement(const struct by_manager_store *store, const char *sql, sqlite3_stmt **out) {
  if (!sql || sqlite3_prepare_v2(store->db, sql, -1, out, NULL) == SQLITE_OK) return BANYAN_OK;
  return fail_sqlite(store, BANYAN_ERR_PARSE);
}

static enum banyan_status prepare_database(struct by_manager_store *store) {
  /* Only one manager uses a file, so it needs no shared memory; it waits for the disk only when the log is written
   * back. */
  BY_TRY(run_sql(store, "PRAGMA locking_mode = EXCLUSIVE"));
  sqlite3_int64 ignored;
  BY_TRY(query_number(store, "PRAGMA application_id", &ignored));
  BY_TRY(run_sql(store, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL"));
  BY_TRY(check_tables(store));
  for (int i = 0; i < N_TABLES; i++) {
    BY_TRY(make_statement(store, tables[i].put, &store->put[i]));
    BY_TRY(make_statement(store, tables[i].clear, &store->clear[i]));
    BY_TRY(make_statement(store, tables[i].drop, &store->drop[i]));
  }
  BY_TRY(make_statement(store, trim_events, &store->trim_events));
  BY_TRY(make_statement(store, put_list, &store->put_list));
  BY_TRY(make_statement(store, put_network, &store->put_network));
  return run_sql(store, "BEGIN IMMEDIATE; COMMIT"); /* Locks the file. */
}

static enum banyan_status open_file(struct by_manager_store *store) {
  struct stat about;
  if (stat(store->path, &about) == 0) BY_TRY(by_trusted_check("the manager's state", store->path, &about));
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
  if (status == BANYAN_OK) status = prepare_database(store);
  if (status == BANYAN_OK)
    *out = store;
  else
    by_manager_store_close(store);
  return status;
}

void by_manager_store_close(struct by_manager_store *store) {
  if (!store) return;
  by_manager_store_commit(store);
  for (sqlite3_stmt *s; store->db && (s = sqlite3_next_stmt(store->db, NULL));) sqlite3_finalize(s);
  sqlite3_close(store->db);
  free(store->path);
  free(store);
}

/* ---- reading */

static void read_column(sqlite3_stmt *s, int at, const struct column *column, struct by_manager_row *row) {
  void *to = (char *)row + column->at;
  const char **text = to;
  switch (column->kind) {
  case TEXT:
  case MAYBE:
    *text = (const char *)sqlite3_column_text(s, at);
    if (!*text && column->kind == TEXT) *text = "";
    break;
  case REAL: *(double *)to = sqlite3_column_double(s, at); break;
  case COUNT: *(uint64_t *)to = (uint64_t)sqlite3_column_int64(s, at); break;
  case SMALL: *(uint32_t *)to = (uint32_t)sqlite3_column_int64(s, at); break;
  case FLAG: *(bool *)to = sqlite3_column_int64(s, at) != 0; break;
  }
}

static enum banyan_status load_table(const struct by_manager_store *store, enum by_manager_table table,
                                     void (*restore)(void *context, const struct by_manager_row *row), void *context) {
  sqlite3_stmt *s = NULL;
  BY_TRY(make_statement(store, tables[table].load, &s));
  int code;
  while ((code = sqlite3_step(s)) == SQLITE_ROW) {
    struct by_manager_row row = {.table = table};
    for (int i = 0; i < tables[table].n; i++) read_column(s, i, &tables[table].columns[i], &row);
    restore(context, &row);
  }
  enum banyan_status status = code == SQLITE_DONE ? BANYAN_OK : fail_sqlite(store, BANYAN_ERR_PARSE);
  sqlite3_finalize(s);
  return status;
}

enum banyan_status by_manager_store_load(struct by_manager_store *store,
                                         void (*row)(void *context, const struct by_manager_row *row), void *context) {
  for (int i = 0; i < N_TABLES; i++) BY_TRY(load_table(store, (enum by_manager_table)i, row, context));
  return BANYAN_OK;
}

enum banyan_status by_manager_store_get_list(struct by_manager_store *store, const char *authority, int64_t *number) {
  sqlite3_stmt *s;
  BY_TRY(make_statement(store, "SELECT number FROM lists WHERE authority = ?", &s));
  sqlite3_bind_text(s, 1, authority, -1, SQLITE_STATIC);
  int code = sqlite3_step(s);
  *number = code == SQLITE_ROW ? sqlite3_column_int64(s, 0) : -1;
  enum banyan_status status =
      code == SQLITE_ROW || code == SQLITE_DONE ? BANYAN_OK : fail_sqlite(store, BANYAN_ERR_PARSE);
  sqlite3_finalize(s);
  return status;
}

enum banyan_status by_manager_store_get_topology(struct by_manager_store *store, struct by_text *out) {
  sqlite3_stmt *s;
  BY_TRY(make_statement(store, "SELECT topology FROM network", &s));
  int code = sqlite3_step(s);
  const char *text = code == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
  if (text) by_text_add_bytes(out, text, strlen(text));
  enum banyan_status status =
      code == SQLITE_ROW || code == SQLITE_DONE ? BANYAN_OK : fail_sqlite(store, BANYAN_ERR_PARSE);
  sqlite3_finalize(s);
  return out->failed ? by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the topology that was kept") : status;
}

/* ---- writing */

static void report_lost(struct by_manager_store *store) {
  if (!store->notified)
    by_error("manager", "the state is not kept in %s any more: %s; the manager goes on, and tries again", store->path,
             sqlite3_errmsg(store->db));
  store->lost = store->notified = true;
  if (!sqlite3_get_autocommit(store->db)) sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
  store->open = false;
}

static bool begin_transaction(struct by_manager_store *store) {
  if (store->open) return true;
  store->open = sqlite3_exec(store->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;
  if (!store->open) report_lost(store);
  return store->open;
}

static void bind_column(sqlite3_stmt *s, int at, const struct column *column, const struct by_manager_row *row) {
  const void *from = (const char *)row + column->at;
  switch (column->kind) {
  case TEXT:
  case MAYBE: sqlite3_bind_text(s, at, *(const char *const *)from, -1, SQLITE_STATIC); break;
  case REAL: sqlite3_bind_double(s, at, *(const double *)from); break;
  case COUNT: sqlite3_bind_int64(s, at, (sqlite3_int64) * (const uint64_t *)from); break;
  case SMALL: sqlite3_bind_int64(s, at, *(const uint32_t *)from); break;
  case FLAG: sqlite3_bind_int64(s, at, *(const bool *)from); break;
  }
}

/* Runs a statement with the first n columns of a row. */
static void run_statement(struct by_manager_store *store, sqlite3_stmt *s, const struct by_manager_row *row, int n) {
  for (int i = 0; i < n; i++) bind_column(s, i + 1, &tables[row->table].columns[i], row);
  if (sqlite3_step(s) != SQLITE_DONE) report_lost(store);
  sqlite3_reset(s);
  sqlite3_clear_bindings(s);
}

void by_manager_store_keep(struct by_manager_store *store, const struct by_manager_row *row) {
  if (store->lost || !begin_transaction(store)) return;
  if (!row->gone) {
    run_statement(store, store->put[row->table], row, tables[row->table].n);
    if (row->table == BY_ROW_HISTORY) run_statement(store, store->trim_events, row, 1);
  } else if (store->drop[row->table]) {
    run_statement(store, store->drop[row->table], row, 2);
  } else { /* Deletes a job with all of its rows. */
    int end = row->table == BY_ROW_JOB ? N_TABLES : (int)row->table + 1;
    for (int i = (int)row->table; i < end; i++) run_statement(store, store->clear[i], row, 1);
  }
}

void by_manager_store_keep_list(struct by_manager_store *store, const char *authority, int64_t number) {
  if (store->lost || !begin_transaction(store)) return;
  sqlite3_bind_text(store->put_list, 1, authority, -1, SQLITE_STATIC);
  sqlite3_bind_int64(store->put_list, 2, number);
  if (sqlite3_step(store->put_list) != SQLITE_DONE) report_lost(store);
  sqlite3_reset(store->put_list);
  sqlite3_clear_bindings(store->put_list);
}

void by_manager_store_keep_topology(struct by_manager_store *store, const char *topology) {
  if (store->lost || !begin_transaction(store)) return;
  sqlite3_bind_text(store->put_network, 1, topology, -1, SQLITE_STATIC);
  if (sqlite3_step(store->put_network) != SQLITE_DONE) report_lost(store);
  sqlite3_reset(store->put_network);
  sqlite3_clear_bindings(store->put_network);
}

void by_manager_store_commit(struct by_manager_store *store) {
  if (!store->open) return;
  store->open = false;
  if (sqlite3_exec(store->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK) report_lost(store);
  if (!store->notified || store->lost) return;
  by_warn("manager", "the state is kept in %s again", store->path);
  store->notified = false;
}

bool by_manager_store_lost(const struct by_manager_store *store) {
  return store->lost;
}

void by_manager_store_retry(struct by_manager_store *store) {
  store->lost = false;
}

void by_manager_store_renew(struct by_manager_store *store) {
  by_manager_store_retry(store);
  if (begin_transaction(store) &&
      sqlite3_exec(store->db,
                   "DELETE FROM jobs; DELETE FROM plans; DELETE FROM helpers; DELETE FROM cells; DELETE FROM servers; "
                   "DELETE FROM grants",
                   NULL, NULL, NULL) != SQLITE_OK)
    report_lost(store);
}
