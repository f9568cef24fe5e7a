#include "membership_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum {
  DELAY = 300,    /* of a machine's timer */
  TICKS = 500,    /* between two looks at other processes */
  SILENCE = 3000, /* then a process is suspected */
  MEETING = 4000, /* that the first member waits for others; they wait three times as long for it */
  PROOF = 1500,   /* within which a launcher tells of a death */
  NEWCOMER_ASKS = 40,
};

bool chance(struct world *world, double of) {
  return by_rng_unit(&world->rng) < of;
}

uint32_t pick(struct world *world, uint32_t n) {
  return (uint32_t)by_rng_below(&world->rng, n);
}

/* With BANYAN_TEST_TELL, what happens is printed. */
#define TELL(world, ...)                                                                                               \
  do {                                                                                                                 \
    if (getenv("BANYAN_TEST_TELL")) {                                                                                  \
      print_message("%9.0f ms: ", (world)->now);                                                                       \
      print_message(__VA_ARGS__);                                                                                      \
    }                                                                                                                  \
  } while (0)

#define EXPECT(world, condition, ...)                                                                                  \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      print_error("seed %llu at %.0f ms: ", (unsigned long long)(world)->seed, (world)->now);                          \
      print_error(__VA_ARGS__);                                                                                        \
      print_error("\n");                                                                                               \
      fail();                                                                                                          \
    }                                                                                                                  \
  } while (0)

/* ---- events */

static struct event *add_event(struct world *world, double delay, struct event event) {
  if (!world->n_free) {
    uint32_t more = world->room_events ? world->room_events : 256;
    world->events = realloc(world->events, (world->room_events + more) * sizeof *world->events);
    world->free_events = realloc(world->free_events, (world->room_events + more) * sizeof *world->free_events);
    world->heap.items = realloc(world->heap.items, (world->room_events + more) * sizeof *world->heap.items);
    assert_true(world->events && world->free_events && world->heap.items);
    for (uint32_t i = 0; i < more; i++) world->free_events[world->n_free++] = world->room_events + more - 1 - i;
    world->room_events += more;
  }
  uint32_t at = world->free_events[--world->n_free];
  world->events[at] = event;
  by_heap_push(&world->heap, world->now + delay, at);
  return &world->events[at];
}

static bool is_blocked(const struct world *world, uint32_t from, uint32_t to) {
  return world->blocked && world->blocked[from * world->room + to];
}

static bool is_up(const struct world *world, uint32_t process) {
  return world->processes[process].alive && !world->processes[process].ended;
}

/* Delays are short, and long at times, so that messages overtake each other. */
static void post(struct world *world, struct event event) {
  if (!world->processes[event.from].alive) return;
  if (++world->sends == world->crash_at) {
    kill_process(world, event.from, chance(world, world->crash_proven));
    if (chance(world, 0.5)) return; /* else this is the last one that leaves */
  }
  if (is_blocked(world, event.from, event.to) || chance(world, world->loss)) return;
  for (uint32_t i = 0; i < (chance(world, world->twice) ? 2u : 1u); i++) {
    struct event copy = event;
    copy.bytes = NULL;
    if (event.bytes) {
      copy.bytes = malloc(event.length + 1);
      assert_non_null(copy.bytes);
      memcpy(copy.bytes, event.bytes, event.length);
    }
    double most = chance(world, world->slow) ? 4000 : 40;
    add_event(world, 1 + most * by_rng_unit(&world->rng), copy);
  }
}

/* ---- processes and machines */

static uint32_t find_process(const struct world *world, const struct by_fingerprint *fingerprint) {
  uint32_t process;
  memcpy(&process, fingerprint->bytes + 8, sizeof process);
  assert_true(process < world->n);
  assert_memory_equal(&world->processes[process].fingerprint, fingerprint, sizeof *fingerprint);
  return process;
}

static uint32_t add_process(struct world *world) {
  struct process *process = &world->processes[world->n];
  *process = (struct process){.exists = true, .alive = true};
  uint64_t random = by_rng_next(&world->rng);
  memcpy(process->fingerprint.bytes, &random, sizeof random);
  memcpy(process->fingerprint.bytes + 8, &world->n, sizeof world->n);
  return world->n++;
}

struct machine *newest(const struct world *world, uint32_t process) {
  return world->processes[process].n_machines ? world->processes[process].machines[0] : NULL;
}

static struct machine *find_machine(const struct world *world, uint32_t process, uint64_t number) {
  const struct process *of = &world->processes[process];
  for (uint32_t i = 0; i < of->n_machines; i++)
    if (of->machines[i]->group->membership->number == number) return of->machines[i];
  return NULL;
}

static struct group *find_group(const struct world *world, uint64_t number) {
  for (uint32_t i = world->n_groups; i-- > 0;)
    if (world->groups[i]->membership->number == number) return world->groups[i];
  return NULL;
}

static struct world *current; /* that the callbacks are of */

bool is_active(const struct world *world, const struct group *group) {
  if (!group->formed) return false;
  for (uint32_t i = 0; i < group->membership->n; i++) {
    const struct machine *machine = newest(world, group->processes[i]);
    if (!is_up(world, group->processes[i]) || !machine || machine->group != group) return false;
  }
  return true;
}

static void check_active(const struct world *world, const struct group *group) {
  if (world->rule == BY_QUORUM_NONE || !is_active(world, group)) return;
  for (uint32_t i = 0; i < world->n_groups; i++)
    EXPECT(world, world->groups[i] == group || !is_active(world, world->groups[i]),
           "two groups go on: \"%s\" of %u and \"%s\" of %u", group->membership->name, group->membership->n,
           world->groups[i]->membership->name, world->groups[i]->membership->n);
}

/* ---- groups */

static struct group *add_group(struct world *world, struct by_membership *membership, struct group *before,
                               const uint8_t *bytes, size_t length) {
  struct group *group = calloc(1, sizeof *group);
  assert_non_null(group);
  *group = (struct group){.membership = membership, .before = before, .length = length, .began = world->now};
  group->bytes = malloc(length + 1);
  group->processes = malloc(membership->n * sizeof *group->processes);
  group->met = calloc(membership->n, 1);
  assert_true(group->bytes && group->processes && group->met);
  if (length) memcpy(group->bytes, bytes, length);
  for (uint32_t i = 0; i < membership->n; i++)
    group->processes[i] = find_process(world, &membership->members[i].fingerprint);
  if ((world->n_groups & (world->n_groups - 1)) == 0) {
    world->groups = realloc(world->groups, (world->n_groups ? 2 * world->n_groups : 1) * sizeof *world->groups);
    assert_non_null(world->groups);
  }
  return world->groups[world->n_groups++] = group;
}

/* The group of a decided successor. The same bytes give the same one. */
static struct group *make_group(struct world *world, struct group *before, const struct by_successor *successor) {
  struct by_membership *membership;
  struct by_writer writer;
  by_writer_init(&writer, NULL, 0);
  by_successor_write(&writer, successor);
  size_t length = writer.length;
  uint8_t *bytes = malloc(length);
  assert_non_null(bytes);
  by_writer_init(&writer, bytes, length);
  by_successor_write(&writer, successor);
  struct group *group = NULL;
  for (uint32_t i = world->n_groups; i-- > 0 && !group;) {
    struct group *other = world->groups[i];
    if (other->before == before && other->length == length && !memcmp(other->bytes, bytes, length)) group = other;
  }
  if (!group) {
    assert_ok(by_successor_apply(successor, before->membership, &membership));
    const struct group *same = find_group(world, membership->number);
    EXPECT(world, !same, "two memberships have the number of \"%s\"", membership->name);
    group = add_group(world, membership, before, bytes, length);
    TELL(world, "\"%s\" succeeds \"%s\":", membership->name, before->membership->name);
    for (uint32_t i = 0; i < membership->n && getenv("BANYAN_TEST_TELL"); i++)
      print_message(" %u%s", group->processes[i], membership->members[i].flags & BY_MEMBER_FOUNDER ? "" : "n");
    if (getenv("BANYAN_TEST_TELL")) print_message("; %u excluded\n", membership->n_excluded);
  }
  free(bytes);
  return group;
}

/* ---- callbacks; the context is the machine */

static void on_send(void *context, uint32_t to, const void *message, size_t length) {
  struct machine *machine = context;
  post(current, (struct event){.kind = MESSAGE,
                               .from = machine->process,
                               .to = machine->group->processes[to],
                               .number = machine->group->membership->number,
                               .bytes = (uint8_t *)message,
                               .length = length});
}

static void on_welcome(void *context, const struct by_fingerprint *to, const void *message, size_t length) {
  const struct machine *machine = context;
  post(current, (struct event){.kind = WELCOME,
                               .from = machine->process,
                               .to = find_process(current, to),
                               .number = machine->group->membership->number,
                               .bytes = (uint8_t *)message,
                               .length = length});
}

static void on_set_timer(void *context, uint64_t delay) {
  struct machine *machine = context;
  add_event(current, (double)delay,
            (struct event){.kind = TIMER,
                           .to = machine->process,
                           .number = machine->group->membership->number,
                           .timer = ++machine->timer});
}

static void enter(struct world *world, uint32_t process, struct group *group);

/* Whether so many members are dead that they may have decided something that nobody else knows. */
static bool is_majority_dead(const struct world *world, const struct group *group) {
  uint32_t n = group->membership->n, dead = 0;
  for (uint32_t i = 0; i < n; i++) dead += !world->processes[group->processes[i]].alive;
  return 2 * dead > n || (2 * dead == n && !world->processes[group->processes[0]].alive);
}

static void check_decision(struct world *world, const struct group *before, const struct group *group) {
  if (world->rule == BY_QUORUM_NONE) return;
  for (uint32_t i = 0; i < world->n_groups; i++) {
    const struct group *other = world->groups[i];
    if (other->before != before || other == group || !other->is_decided) continue;
    EXPECT(world, world->rule == BY_QUORUM_SURVIVORS && is_majority_dead(world, before),
           "\"%s\" and \"%s\" both succeed \"%s\"", other->membership->name, group->membership->name,
           before->membership->name);
    world->extinct++;
    for (uint32_t k = 0; k < before->membership->n; k++) {
      const struct machine *machine = find_machine(world, before->processes[k], before->membership->number);
      EXPECT(world, !is_up(world, before->processes[k]) || !machine || machine->taken != other,
             "\"%s\" and \"%s\" both succeed \"%s\", and process %u, which knows the first, lives",
             other->membership->name, group->membership->name, before->membership->name, before->processes[k]);
    }
  }
}

/* The network of one process fails, or all of it. */
static void cut_off_process(struct world *world, uint32_t process) {
  if (chance(world, 0.5)) {
    kill_process(world, process, chance(world, world->crash_proven));
    return;
  }
  for (uint32_t i = 0; i < world->room; i++) {
    if (i == process) continue;
    block(world, i, process, true);
    block(world, process, i, true);
  }
}

static struct group *note_decision(struct world *world, const struct machine *machine,
                                   const struct by_successor *successor) {
  struct group *group = make_group(world, machine->group, successor);
  check_decision(world, machine->group, group);
  if (!group->is_decided) {
    world->decisions++;
    if (chance(world, world->cut_decider)) cut_off_process(world, machine->process);
  }
  group->is_decided = true;
  return group;
}

static void on_decided(void *context, const struct by_successor *successor) {
  struct machine *machine = context;
  struct process *process = &current->processes[machine->process];
  if (!process->alive) return;
  EXPECT(current, !machine->taken, "process %u takes a second successor", machine->process);
  machine->taken = note_decision(current, machine, successor);
  enter(current, machine->process, machine->taken);
}

static void on_ended(void *context, const char *text) {
  const struct machine *machine = context;
  struct process *process = &current->processes[machine->process];
  const struct by_successor *successor = by_paxos_decision(machine->paxos); /* of one that left */
  if (process->alive && successor) note_decision(current, machine, successor);
  EXPECT(current, strlen(text) > 20 && strstr(text, "member"), "the explanation is \"%s\"", text);
  TELL(current, "process %u: %s\n", machine->process, text);
  if (!process->alive) return;
  process->ended = true;
  current->ended++;
}

static void on_gone(void *context, const struct by_fingerprint *fingerprint) {
  const struct machine *machine = context;
  const struct process *process = &current->processes[machine->process];
  for (uint32_t i = 0; i < process->n_machines; i++)
    if (process->machines[i] != machine) assert_ok(by_paxos_gone(process->machines[i]->paxos, fingerprint));
}

static void free_machine(struct machine *machine) {
  by_paxos_destroy(machine->paxos);
  free(machine);
}

static void enter(struct world *world, uint32_t process, struct group *group) {
  struct process *of = &world->processes[process];
  struct machine *machine = calloc(1, sizeof *machine);
  assert_non_null(machine);
  uint32_t self = by_membership_find(group->membership, &of->fingerprint);
  EXPECT(world, self < group->membership->n, "process %u takes \"%s\", which it is not in", process,
         group->membership->name);
  EXPECT(world, !find_machine(world, process, group->membership->number), "process %u takes \"%s\" twice", process,
         group->membership->name);
  *machine = (struct machine){.group = group, .process = process, .self = self};
  struct by_paxos_config config = {.membership = group->membership,
                                   .self = self,
                                   .seed = by_rng_next(&world->rng),
                                   .delay = DELAY,
                                   .send = on_send,
                                   .welcome = on_welcome,
                                   .set_timer = on_set_timer,
                                   .decided = on_decided,
                                   .ended = on_ended,
                                   .gone = on_gone,
                                   .context = machine};
  uint64_t random = by_rng_next(&world->rng);
  memcpy(config.root, &random, sizeof random);
  assert_ok(by_paxos_create(&config, &machine->paxos));
  if (of->n_machines == KEPT_MACHINES) {
    struct machine *last = of->machines[KEPT_MACHINES - 1];
    free_machine(last);
    of->n_machines--;
  }
  memmove(of->machines + 1, of->machines, of->n_machines * sizeof(struct machine *));
  of->machines[0] = machine;
  of->n_machines++;
  of->newcomer = false;
}

/* ---- what processes do */

void kill_process(struct world *world, uint32_t process, bool proven) {
  struct process *of = &world->processes[process];
  if (!of->alive) return;
  of->alive = false;
  of->proven = proven;
  of->died = world->now;
  TELL(world, "process %u dies%s\n", process, proven ? ", which is proven" : "");
}

void leave(struct world *world, uint32_t process) {
  struct machine *machine = newest(world, process);
  if (!is_up(world, process) || !machine) return;
  assert_ok(by_paxos_leave(machine->paxos));
  assert_ok(by_paxos_request(machine->paxos));
}

static void meet(struct world *world, struct machine *machine) {
  struct event event = {.kind = MEET,
                        .from = machine->process,
                        .to = machine->group->processes[0],
                        .number = machine->group->membership->number};
  if (!machine->knows_formed) post(world, event);
}

static bool is_suspect(const struct world *world, const struct machine *machine, uint32_t rank) {
  uint32_t from = machine->group->processes[rank];
  const struct process *of = &world->processes[from];
  double unmet = world->now - machine->group->began;
  if (!of->alive && world->now - of->died > SILENCE) return true;
  if (is_blocked(world, from, machine->process) &&
      world->now - world->blocked_since[from * world->room + machine->process] > SILENCE)
    return true;
  const struct machine *other = newest(world, from); /* one that has moved on closes its connections */
  if (find_machine(world, from, machine->group->membership->number) && other->group != machine->group &&
      world->now - other->group->began > SILENCE)
    return true;
  if (machine->knows_formed) return false;
  if (machine->self == 0) return unmet > MEETING && !machine->group->met[rank];
  return unmet > 3 * MEETING && rank == 0;
}

/* What this process notices of the others. */
static void look(struct world *world, struct machine *machine) {
  uint32_t n = machine->group->membership->n;
  for (uint32_t i = 0; i < n && by_paxos_state(machine->paxos) < BY_PAXOS_CLOSED; i++) {
    const struct process *of = &world->processes[machine->group->processes[i]];
    if (i == machine->self) continue;
    bool proven = !of->alive && of->proven && world->now > of->died + PROOF * by_rng_unit(&world->rng);
    bool suspect = !proven && is_suspect(world, machine, i);
    if (proven)
      assert_ok(by_paxos_dead(machine->paxos, i));
    else if (suspect)
      assert_ok(by_paxos_suspect(machine->paxos, i));
    else
      by_paxos_trust(machine->paxos, i);
    if (proven || suspect) assert_ok(by_paxos_request(machine->paxos));
  }
  for (uint32_t i = n; i < n + machine->group->membership->n_excluded; i++) {
    const struct by_fingerprint *fingerprint = &machine->group->membership->members[i].fingerprint;
    const struct process *of = &world->processes[find_process(world, fingerprint)];
    if (of->ended || (!of->alive && of->proven)) assert_ok(by_paxos_gone(machine->paxos, fingerprint));
  }
}

static void tick(struct world *world, uint32_t process) {
  struct process *of = &world->processes[process];
  if (!of->alive) return;
  if (of->ended) { /* Its process ends. */
    if (chance(world, 0.1)) kill_process(world, process, chance(world, world->crash_proven));
  } else if (of->newcomer) {
    uint32_t asked = pick(world, world->n);
    if (of->asks++ == NEWCOMER_ASKS)
      of->ended = true;
    else
      post(world, (struct event){.kind = JOIN, .from = process, .to = asked});
  } else if (of->n_machines) {
    meet(world, of->machines[0]);
    look(world, of->machines[0]);
  }
  add_event(world, TICKS, (struct event){.kind = TICK, .to = process});
}

/* The oldest membership that the newcomer was added to is the one whose members may wait for it. */
static void join(struct world *world, uint32_t process, uint32_t newcomer) {
  const struct process *of = &world->processes[process];
  for (uint32_t i = of->n_machines; i-- > 0;) {
    enum banyan_status status = by_paxos_join(of->machines[i]->paxos, &world->processes[newcomer].fingerprint);
    if (status == BANYAN_OK) {
      assert_ok(by_paxos_request(of->machines[i]->paxos));
      return;
    }
    assert_int_equal(status, BANYAN_ERR_CLOSED);
  }
}

static void take_welcome(struct world *world, const struct event *event) {
  struct by_membership *membership;
  uint8_t secret[BY_SECRET_BYTES];
  uint64_t number;
  assert_ok(by_paxos_welcome_read(event->bytes, event->length, &number, &membership, secret));
  struct group *group = find_group(world, membership->number);
  EXPECT(world, group && group->before->membership->number == number, "a newcomer is in a group that nobody decided");
  EXPECT(world, by_membership_equal(group->membership, membership), "a newcomer is told another group's number");
  by_membership_destroy(membership);
  if (!world->processes[event->to].newcomer) return;
  world->welcomed++;
  enter(world, event->to, group);
}

static void take_meet(struct world *world, const struct event *event) {
  struct machine *machine = find_machine(world, event->to, event->number);
  if (!machine || machine->self != 0) return; /* which has not taken it yet */
  struct group *group = machine->group;
  uint32_t rank = by_membership_find(group->membership, &world->processes[event->from].fingerprint);
  if (!group->met[rank]) group->n_met++;
  group->met[rank] = 1;
  if (group->n_met < group->membership->n) return;
  if (!group->formed) {
    group->formed = true;
    world->formed++;
    TELL(world, "\"%s\" has met\n", group->membership->name);
    check_active(world, group);
  }
  post(world, (struct event){.kind = MET, .from = event->to, .to = event->from, .number = event->number});
}

static void kill_first(struct world *world) {
  for (uint32_t i = 0; i <= world->last_to_die; i++) kill_process(world, i, true);
  world->last_to_die = 0;
  world->slow = 0; /* their last messages arrive late, others do not */
}

static void handle(struct world *world, const struct event *event) {
  struct machine *machine;
  if (event->kind == FAULT) {
    if (world->fault) world->fault(world);
    return;
  }
  if (event->kind == TICK) {
    tick(world, event->to);
    return;
  }
  if (!world->processes[event->to].alive) return;
  machine = find_machine(world, event->to, event->number);
  switch (event->kind) {
  case MESSAGE:
    world->delivered++;
    if (!machine) return;
    assert_ok(by_paxos_receive(
        machine->paxos, by_membership_find(machine->group->membership, &world->processes[event->from].fingerprint),
        event->bytes, event->length));
    break;
  case WELCOME: take_welcome(world, event); break;
  case MEET: take_meet(world, event); break;
  case MET:
    if (!machine) return;
    machine->knows_formed = true;
    assert_ok(by_paxos_formed(machine->paxos));
    break;
  case TIMER:
    if (machine && machine->timer == event->timer && !world->processes[event->to].ended)
      assert_ok(by_paxos_timer(machine->paxos));
    break;
  case JOIN:
    if (is_up(world, event->to)) join(world, event->to, event->from);
    break;
  case TICK:
  case FAULT: break;
  }
}

void run_world(struct world *world, double until) {
  current = world;
  while (world->heap.n && world->heap.items[0].key <= until) {
    struct by_heap_item item = by_heap_pop(&world->heap);
    struct event event = world->events[item.number];
    world->free_events[world->n_free++] = item.number;
    world->now = item.key;
    handle(world, &event);
    free(event.bytes);
    if (world->last_to_die && world->decisions) kill_first(world);
  }
  world->now = until;
}

/* ---- the world */

static void start_ticking(struct world *world, uint32_t process) {
  if (world->detects) add_event(world, TICKS * by_rng_unit(&world->rng), (struct event){.kind = TICK, .to = process});
}

struct world *make_world(uint64_t seed, uint32_t n, uint32_t room, enum by_quorum_rule rule) {
  struct world *world = calloc(1, sizeof *world);
  assert_non_null(world);
  world->seed = seed;
  world->rule = rule;
  world->room = room;
  world->crash_proven = 0.6;
  world->detects = room <= 256;
  by_rng_init(&world->rng, seed);
  world->processes = calloc(room, sizeof *world->processes);
  if (world->detects) {
    world->blocked = calloc((size_t)room * room, 1);
    world->blocked_since = calloc((size_t)room * room, sizeof(double));
    assert_true(world->blocked && world->blocked_since);
  }
  struct by_membership first = {.tag = seed, .rule = rule, .name = "first", .n = n}, *membership;
  first.members = calloc(n, sizeof *first.members);
  assert_true(world->processes && first.members);
  for (uint32_t i = 0; i < n; i++) {
    add_process(world);
    first.members[i] = (struct by_membership_member){world->processes[i].fingerprint, BY_MEMBER_FOUNDER};
  }
  assert_ok(by_membership_create(&first, &membership));
  free(first.members);
  current = world;
  struct group *group = add_group(world, membership, NULL, NULL, 0);
  group->formed = group->is_decided = true;
  for (uint32_t i = 0; i < n; i++) {
    enter(world, i, group);
    world->processes[i].machines[0]->knows_formed = true;
    assert_ok(by_paxos_formed(world->processes[i].machines[0]->paxos));
    start_ticking(world, i);
  }
  return world;
}

void free_world(struct world *world) {
  for (uint32_t i = 0; i < world->n; i++)
    for (uint32_t k = 0; k < world->processes[i].n_machines; k++) free_machine(world->processes[i].machines[k]);
  for (uint32_t i = 0; i < world->n_groups; i++) {
    struct group *group = world->groups[i];
    by_membership_destroy(group->membership);
    free(group->bytes);
    free(group->processes);
    free(group->met);
    free(group);
  }
  for (uint32_t i = 0; i < world->heap.n; i++) free(world->events[world->heap.items[i].number].bytes);
  free(world->groups);
  free(world->events);
  free(world->free_events);
  free(world->heap.items);
  free(world->processes);
  free(world->blocked);
  free(world->blocked_since);
  free(world);
}

uint32_t add_newcomer(struct world *world) {
  if (world->n == world->room) return UINT32_MAX;
  uint32_t process = add_process(world);
  world->processes[process].newcomer = true;
  start_ticking(world, process);
  return process;
}

void block(struct world *world, uint32_t from, uint32_t to, bool blocked) {
  uint8_t *now = &world->blocked[from * world->room + to];
  if (blocked && !*now) world->blocked_since[from * world->room + to] = world->now;
  *now = blocked;
}

void heal(struct world *world) {
  memset(world->blocked, 0, (size_t)world->room * world->room);
}

void add_fault(struct world *world, double delay) {
  add_event(world, delay, (struct event){.kind = FAULT});
}

bool is_calm(const struct world *world) {
  bool calm = true;
  for (uint32_t i = 0; i < world->n; i++) {
    const struct machine *machine = newest(world, i);
    if (!is_up(world, i) || (machine && is_active(world, machine->group))) continue;
    print_error("seed %llu at %.0f ms: process %u hangs in \"%s\", state %d\n", (unsigned long long)world->seed,
                world->now, i, machine ? machine->group->membership->name : "-",
                machine ? (int)by_paxos_state(machine->paxos) : -1);
    calm = false;
  }
  return calm;
}
