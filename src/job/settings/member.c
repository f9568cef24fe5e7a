/* Members: how a process describes itself, and descriptions as bytes. */
#include "member.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bytes.h"
#include "handshake.h"
#include "log.h"
#include "settings.h"

#define PROCESSES " pid:" /* In an identity, the text before this names the network. */

static const struct by_field fields[] = {
    BY_FIELD(by_member, kind, BY_FIELD_U32, .max = BY_MEMBER_KINDS - 1),
    BY_FIELD(by_member, host, BY_FIELD_TEXT, .max = BY_MEMBER_STRING),
    BY_FIELD(by_member, machine, BY_FIELD_TEXT, .max = BY_MEMBER_STRING),
    BY_FIELD(by_member, local, BY_FIELD_TEXT, .max = BY_MEMBER_STRING),
    BY_FIELD(by_member, pid, BY_FIELD_U32),
    BY_FIELD(by_member, cores, BY_FIELD_U32),
    BY_FIELD(by_member, eager_limit, BY_FIELD_U64),
    BY_FIELD(by_member, credit, BY_FIELD_U64),
    BY_FIELD(by_member, udp_port, BY_FIELD_U32, .max = UINT16_MAX),
    BY_FIELD(by_member, mtu, BY_FIELD_U32),
    BY_FIELD(by_member, handle, BY_FIELD_TEXT, .max = BY_MEMBER_HANDLE),
    BY_FIELD(by_member, n_addresses, BY_FIELD_U32, .max = BY_MEMBER_ADDRESSES),
};

void by_member_write_described(struct by_writer *writer, const struct by_member *member) {
  char text[BY_ADDRESS_TEXT];
  by_fields_write(writer, BY_FIELDS(fields), member);
  for (uint32_t i = 0; i < member->n_addresses; i++)
    by_write_string(writer, by_address_print(&member->addresses[i], text));
}

/* Of a link-local address: "%3" for want of a name is the number of an interface there, "%eth0" likely the same network
 * here. */
static bool is_numbered_there(const char *address) {
  const char *scope = strchr(address, '%');
  return scope && strspn(scope + 1, "0123456789") == strcspn(scope + 1, "]");
}

/* What cannot be read is left out, such as a link-local address on an interface whose name this host does not have: it
 * is of no use here. */
static void read_addresses(struct by_reader *reader, uint32_t n, struct by_member *out) {
  char text[BY_ADDRESS_TEXT];
  out->n_addresses = 0;
  for (uint32_t i = 0; i < n; i++) {
    by_read_string(reader, text, sizeof text);
    if (is_numbered_there(text))
      by_debug("communicator", "an address of host %s is left out: what is %s there?", out->host, text);
    else if (by_address_parse(text, &out->addresses[out->n_addresses]) == BANYAN_OK)
      out->n_addresses++;
    else
      by_debug("communicator", "an address of host %s is left out: %s", out->host, banyan_error_text());
  }
}

enum banyan_status by_member_read_described(struct by_reader *reader, struct by_arena *arena, struct by_member *out) {
  static const char what[] = "a member's description";
  BY_TRY(by_fields_read(reader, arena, BY_FIELDS(fields), what, out));
  out->addresses = BY_ARENA_ARRAY(arena, struct by_address, out->n_addresses);
  if (!out->addresses) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a member");
  read_addresses(reader, out->n_addresses, out);
  return reader->failed ? by_fail(BANYAN_ERR_PROTOCOL, "%s is cut short or malformed", what) : BANYAN_OK;
}

void by_member_write(struct by_writer *writer, const struct by_member *member) {
  by_member_write_described(writer, member);
  by_write_bytes(writer, member->fingerprint.bytes, BY_FINGERPRINT_BYTES);
}

enum banyan_status by_member_read(struct by_reader *reader, struct by_arena *arena, struct by_member *out) {
  BY_TRY(by_member_read_described(reader, arena, out));
  const uint8_t *bytes = by_read_bytes(reader, BY_FINGERPRINT_BYTES);
  if (!bytes) return by_fail(BANYAN_ERR_PROTOCOL, "a member's description is cut short");
  memcpy(out->fingerprint.bytes, bytes, BY_FINGERPRINT_BYTES);
  return BANYAN_OK;
}

const struct by_address *by_member_address(const struct by_member *member, int family) {
  for (uint32_t i = 0; i < member->n_addresses; i++) {
    const struct by_address *address = &member->addresses[i];
    if (by_address_family(address) != family || by_address_is_loopback(address)) continue;
    if (family != AF_INET6 || !by_address_is_link_local(address)) return address;
  }
  return NULL;
}

struct by_address by_member_source(const struct by_member *member, const struct by_address *to) {
  const struct by_address *own = by_member_address(member, by_address_family(to));
  return own && !by_address_is_loopback(to) ? *own : (struct by_address){.length = 0};
}

const char *by_member_kind_name(enum by_member_kind kind) {
  static const char *const names[BY_MEMBER_KINDS] = {"rank", "helper", "server"};
  return names[kind];
}

static unsigned long long inode_of(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 ? (unsigned long long)status.st_ino : 0;
}

const char *by_member_machine(struct by_arena *arena) {
  char boot[64] = "", text[BY_MEMBER_STRING], unlike[BY_KEY_TEXT] = "";
  unsigned long long network = inode_of("/proc/self/ns/net"), processes = inode_of("/proc/self/ns/pid");
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
  if (file && fgets(boot, sizeof boot, file)) boot[strcspn(boot, "\n")] = 0;
  if (file) fclose(file);
  if ((!boot[0] || !network || !processes) && by_key_random(unlike) != BANYAN_OK) return NULL;
  snprintf(text, sizeof text, "%s%s net:%llu" PROCESSES "%llu", boot, unlike, network, processes);
  return by_arena_string(arena, text);
}

enum banyan_status by_member_describe(const struct by_settings *settings, struct by_arena *arena,
                                      struct by_member *out) {
  char name[BY_MEMBER_STRING] = "localhost";
  gethostname(name, sizeof name - 1);
  if (settings->host && strlen(settings->host) > BY_MEMBER_STRING)
    return by_fail(BANYAN_ERR_ARGUMENT, "the host's name has %zu bytes, at most %d fit: set BANYAN_HOST",
                   strlen(settings->host), BY_MEMBER_STRING);
  out->host = by_arena_string(arena, settings->host ? settings->host : name);
  out->machine = by_member_machine(arena);
  out->local = out->handle = "";
  out->pid = (uint32_t)getpid();
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  out->cores = cores > 0 ? (uint32_t)cores : 1;
  out->eager_limit = settings->eager_limit;
  out->credit = settings->credit;
  return out->host && out->machine ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for names");
}

bool by_member_same_network(const struct by_member *a, const struct by_member *b) {
  const char *end = strstr(a->machine, PROCESSES);
  size_t length = end ? (size_t)(end - a->machine) + strlen(PROCESSES) : strlen(a->machine) + 1;
  return !strncmp(a->machine, b->machine, length);
}

bool by_member_same_host(const struct by_member *a, const struct by_member *b) {
  return !strcmp(a->host, b->host) && !strcmp(a->machine, b->machine);
}
