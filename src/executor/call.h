/* Inside the executor: calls, messages, links. Shared by its files only.
 *
 * A program is a compiled schedule with its peers' links and a store of call
 * objects that have run before, so that a call in steady state allocates
 * nothing. A call's steps advance through a work queue: whatever moves a step
 * queues the steps that depend on it. */
#ifndef BY_EXECUTOR_CALL_H
#define BY_EXECUTOR_CALL_H

#include "byte_ranges.h"
#include "engine.h"
#include "reduce.h"

enum { BY_NAME_BYTES = 160, BY_TEXT_BYTES = 512, BY_SPARES = 24, BY_PAST = 16 };

/* A message being sent. */
struct by_out {
  struct by_call *call;
  struct by_link *link;
  struct by_out *next; /* in the link's queue */
  const char *base;    /* address of its first byte */
  uint64_t length, ready, sent;
  uint64_t settled;   /* what no lane needs any more: `sent` less what is still kept */
  uint64_t granted;   /* firmly; beyond it only unasked data */
  uint64_t announced; /* offered: told ready */
  uint32_t step, tag;
  bool queued, offered, asked, decided, by_offer, held; /* held: sent in place, ends with the peer's DONE */
  bool copied; /* the schedule wants it out of the way, and its memory is written in this call */
  struct by_offer offer;
  bool begun;                /* a fabric has it: */
  uint32_t number;           /* its call there, */
  struct by_in *answer;      /* the sum that comes for it */
  struct by_out *begun_next; /* in the link's list */
};

enum by_in_source { BY_IN_NOTHING, BY_IN_DATA, BY_IN_MAPPED, BY_IN_PULLED };

/* A message being received. Bytes below `arrived` are there; below `consumed`, used. */
struct by_in {
  struct by_call *call;
  struct by_link *link;
  struct by_in *note_next; /* in the link's list of messages with something to tell */
  uint64_t length, arrived, consumed, granted;
  char *stage; /* ring of the engine's `window` bytes; NULL while nothing waits in it */
  const char *mapped;
  struct by_byte_ranges ahead; /* bytes that came before those in front of them, over another lane */
  struct by_offer offer;
  uint32_t incoming; /* index in the schedule */
  uint8_t source;    /* enum by_in_source */
  bool asked, held, noted, tell_done, tell_refuse, tell_grant;
};

struct by_state {
  uint64_t at, end; /* bytes of the layout; at == end: the step is done */
  bool queued, done;
};

/* A group of a plan with helpers: the versions under which its messages travel. */
struct by_helped_group {
  uint32_t version, again; /* through its helpers; among ranks alone. 0: it has no helpers */
  bool lost;               /* one of its helpers: it goes among ranks alone */
};

/* A plan with helpers, and what makes up for one that is lost. */
struct by_helped {
  struct by_helped *next; /* an older one of the domain */
  struct by_domain *domain;
  struct by_plan *plan, *among, *confirm; /* with helpers; among ranks; how all tell all that they have results */
  uint32_t confirm_version;
  uint32_t self;                  /* this process's vertex */
  uint32_t *processes;            /* by vertex; UINT32_MAX: nobody stands there */
  uint32_t *first;                /* by class: its first group in `groups` */
  struct by_helped_group *groups; /* of all classes */
  uint32_t users;                 /* calls under way */
};

/* One group of a call, run apart from the others so that it can be repeated. */
struct by_part {
  uint32_t group;
  struct by_call *call, *again; /* through helpers, among ranks; NULL: not begun, or given up */
  bool in, in_again;            /* its result is there */
  bool direct;                  /* `again` came first: it works in the caller's buffers */
};

/* A call over a plan with helpers: see joint.c. */
struct by_joint {
  struct by_helped *helped;
  uint32_t class_, n;
  struct by_part *parts;
  struct banyan_call user;
  struct by_call *confirm;
  bool confirmed;
  uint8_t *votes, *verdict; /* by part: 1: this rank, any rank, has the result of `again` only */
  void *kept, *results;     /* contributions that adding in place would destroy; what comes out of `again` */
  size_t kept_bytes, results_bytes;
};

struct by_program {
  struct by_program *next;
  struct by_domain *domain;
  struct by_helped *helped; /* NULL: of a plan without helpers, or of what they have no part in */
  const struct by_class *class_;
  struct by_schedule *schedule;
  struct by_link **links;    /* of the schedule's peers */
  struct by_call *idle;      /* calls that can be used again */
  struct by_call *all;       /* every call that was made for it */
  uint32_t running;          /* calls in use */
  uint32_t *out_of_step;     /* index into a call's outs */
  uint32_t *first_out;       /* of each peer: a call's outs are ordered by peer and tag */
  uint32_t n_outs, n_staged; /* messages to be added: each may need a ring */
  bool joint;                /* its calls have parts */
  bool through;              /* some link goes through switches */
  bool retired;              /* its plan was replaced: freed with its last call */
};

struct by_call {
  struct by_call *sibling; /* in the program's list of all */
  struct by_call *next;    /* idle list, or the engine's list of running calls */
  struct by_call **back;   /* what points to it in the list of running calls */
  struct by_call *ready_next;
  struct by_call *ready_next_pair; /* list of running send/recv calls of the domain */
  struct by_program *program;
  const struct by_schedule *schedule;
  struct by_engine *engine;
  struct by_domain *domain;
  struct by_frame stamp; /* descriptor for every frame */
  uint64_t kind;         /* of the domain's calls, that stamp, bounds and the like were filled for; 0: none */
  char *buffer[BY_BUFFERS];
  const void *user_send; /* scaled calls and in-place blocks: what the caller gave */
  void *user_recv;
  uint64_t user_bytes; /* to be copied to user_recv at the end, 0: nothing */
  uint64_t *bounds;
  size_t bounds_count; /* the count that bounds[] was filled for; SIZE_MAX: none */
  size_t bounds_element;
  struct by_state *states;
  struct by_out *outs;
  struct by_in *ins;
  uint32_t *work; /* ring of steps to look at */
  uint32_t work_first, work_n;
  uint32_t steps_left;
  uint32_t n_ins;
  uint32_t notes; /* messages that still have to tell their sender something */
  by_kernel_reduce_fn reduce;
  size_t element; /* bytes, a power of two */
  uint32_t element_shift;
  size_t chunk;     /* most bytes of a frame, by the engine's options and the plan */
  uint32_t divisor; /* 0: no division */
  uint64_t deadline;
  uint64_t trace; /* its record in the tracer, or its whole's; 0: none */
  void *scratch;  /* tmp buffer and its size, kept for the next call */
  size_t scratch_bytes;
  enum banyan_status status;
  struct by_joint *joint;                             /* a call with parts; */
  struct by_call *whole;                              /* or the one that this is a part of */
  struct by_call *due_next;                           /* in the engine's list of calls with all steps done */
  bool taken, ended, released, pair, ready, aid, due; /* aid: of others, through this helper */
  bool grants;                                        /* ahead, when it starts */
  bool wired;                                         /* bytes have gone or come, which has been noted */
  uint8_t barrier_byte;
};

/* A frame that arrived before its call was made here. */
struct by_stored {
  struct by_stored *next;
  struct by_frame frame;
  uint32_t filled;
  char payload[];
};

/* A link's end of one lane, and the frame that is being received there. */
struct by_end {
  struct by_link *link;
  struct by_lane *lane;
  struct by_out *kept;   /* whose payload the lane still holds, */
  uint64_t kept_at;      /* from here on */
  bool leaving, parting; /* the peer, this side said goodbye */
  bool receiving;
  struct by_in *in;          /* goes to this message, */
  uint64_t at;               /* its next byte here, */
  struct by_stored *filling; /* or is kept for a later call, */
  bool letter;               /* or is a part of a letter */
};

/* All lanes to one process. The first carries all frames but those of large messages, in order. */
struct by_link {
  struct by_engine *engine;
  uint32_t process;
  uint32_t n_ends;
  struct by_lane *lane;       /* the first one */
  bool refuses;               /* the peer cannot read this process's ordinary memory */
  struct by_link *dirty_next; /* in the engine's list of links with something to send */
  bool dirty;
  bool suspected;               /* its end has been reported */
  bool lost;                    /* a helper that is gone: nobody misses it any more */
  struct by_link *closing_next; /* in the engine's list of those whose lanes are still there */
  bool through;                 /* to a server, through switches: a fabric does it, and there is no lane */
  bool wanted;                  /* a lane was asked for */
  bool holds;                   /* lanes may have small frames, or a part of one, until they are flushed */
  bool left, never;             /* its process left on purpose; so that there never will be a lane if there is none */
  uint32_t turn;                /* end that takes the next part of a large message */
  uint32_t kept;                /* ends that hold a payload */
  struct by_out *outs, **outs_end;
  struct by_in *notes, **notes_end;
  struct by_fabric *fabric;
  struct by_out *begun, **begun_end;        /* what it has in hand */
  uint32_t running;                         /* calls under way that use this link, and receives from any rank */
  struct by_letter *letters, **letters_end; /* to be sent */
  struct by_letter *arriving;               /* whose parts are coming in; NULL: none */
  bool lettered;                            /* letters are to be expected here */
  struct by_frame *words; /* to be said, of no call here: which regions were freed, what a domain owed */
  uint32_t n_words, words_room;
  uint64_t unasked; /* bytes sent beyond grants and not credited */
  uint64_t taken;   /* unasked bytes of the peer that were taken and not reported */
  struct by_stored *stored, **stored_end;
  uint64_t stored_bytes;
  struct by_end ends[BY_LANES];
};

struct by_domain {
  struct by_domain *next;
  struct by_engine *engine;
  uint32_t id, rank, n;
  uint32_t *processes;
  uint32_t *rank_of; /* process -> rank, or UINT32_MAX */
  struct by_plan *plan;
  struct by_past_plan { /* the one before it; for errors */
    uint32_t version;   /* 0: there was none */
    char name[65];      /* cut */
  } before;
  struct by_helped *helped; /* newest first; the plan's own, where it has helpers, is the first */
  bool aided;               /* has or had a plan with helpers */
  struct by_call *aids;     /* of a helper: calls under way, by ready_next_pair */
  uint64_t *aided_past;     /* those that ended last: number and version; NULL: not a helper's */
  struct by_program *programs;
  uint32_t next_call;
  struct by_call **window; /* running calls by number & (window_size - 1) */
  uint32_t window_size;
  struct by_frame past[BY_PAST]; /* descriptors of the calls that ended last, by number % BY_PAST; for errors */
  struct by_pair *pairs;         /* send/recv counters by (peer, tag, direction) */
  struct by_call *pair_calls;
  struct by_last {
    struct by_program *program; /* NULL: nothing is known */
    struct banyan_call call;    /* all but its buffers and deadline */
    size_t total;               /* elements */
    uint64_t kind;              /* grows whenever a call is not like the one before it */
  } last;                       /* checked and looked up: most calls repeat the one before them */
};

/* Numbers send/recv pairs. */
struct by_pair {
  struct by_pair *next;
  uint32_t peer, tag, number;
  bool sends;
};

struct by_engine {
  struct by_engine_options options;
  struct by_link **links;
  uint32_t processes; /* links */
  struct by_domain *domains;
  struct by_call *running; /* not yet ended, newest first */
  uint32_t pending;
  char **stages; /* free staging rings, */
  uint32_t n_stages, stages_room;
  uint32_t stages_made, stages_wanted; /* all that were made; what the calls under way could need at once */
  char *blocks;                        /* scratch for pulled operands: n_blocks x block bytes */
  uint32_t n_blocks;
  const void **sources; /* operands of one addition: as many as any schedule needs */
  uint32_t n_sources;
  struct by_letter *letters, **letters_end; /* that have come */
  struct by_letter *spare_letters;          /* to be used again */
  uint32_t n_spare_letters;
  struct by_link **fabrics; /* links that have one */
  uint32_t n_fabrics;
  struct by_mark mark;
  uint32_t active; /* ends with a lane */
  uint32_t never;  /* links without a lane that never will have one */
  struct by_end **ends;
  enum banyan_status status;
  char error[BY_TEXT_BYTES];
  struct banyan_counters counters;
  struct by_link *dirty, **dirty_end;
  uint64_t sent_before;                   /* by lanes that are closed */
  struct by_link *closing;                /* lost ones, until no call uses them */
  struct by_stored *spare[BY_SPARES];     /* stored frames' memory for the next ones, by size */
  struct by_call *ready, **ready_end;     /* calls with work in their queue */
  uint64_t ended_then, ask_at, ask_after; /* how many had ended; when to ask if no more have; how long that is */
  uint64_t verdict_at;                    /* a call is late, and somebody asks why until then; 0: none is */
  uint32_t *gone, n_gone, gone_room;      /* numbers of domains that were destroyed: peers may still send for them */
  struct by_call *due;                    /* calls with all steps done that have parts, are parts, or are aids */
  bool aids;                              /* this is a helper */
  bool retry;                             /* frames that were kept may have a call now */
  size_t aid_bytes;                       /* scratch of aids under way */
  bool moved;
};

/* domain.c: the plan is about to be replaced. */
void by_domain_note_plan(struct by_domain *domain);
/* The name of its plan, the one before, or a built-in plan, of this version; NULL: it is none of these. In static
 * storage, or as long as the domain has that plan. `domain` may be NULL. */
const char *by_domain_name_plan(const struct by_domain *domain, uint32_t version);

/* outlets.c: one that is attached. */
void by_engine_mark_lane(const struct by_engine *engine, struct by_lane *lane);
void by_engine_mark_fabric(const struct by_engine *engine, struct by_fabric *fabric);

static inline uint64_t by_lane_total(const struct by_lane *lane) {
  return lane->ops->sent ? lane->ops->sent(lane) : 0;
}

static inline bool by_is_aid(const struct by_engine *engine, uint32_t process) {
  return process >= engine->options.ranks;
}

/* Bytes of it go or come. */
static inline void by_call_wire(struct by_call *call) {
  if (!call->trace || call->wired) return;
  call->wired = true;
  by_trace(call->engine->options.tracer, call->trace, BY_TRACE_WIRE);
}

/* roster.c. Room for so many processes in all. */
enum banyan_status by_links_grow(struct by_engine *engine, uint32_t n);
void by_links_free(struct by_engine *engine);
/* A helper is gone: its lanes are closed by by_links_close, once they are over and no call uses them. Nothing that goes
 * through lanes may call that. */
void by_link_lose(struct by_link *link);
void by_links_close(struct by_engine *engine);

/* program.c. For the class of so many bytes. `through`: switches can add it. */
enum banyan_status by_program_get(struct by_domain *domain, uint64_t bytes, enum banyan_collective collective,
                                  uint32_t root, bool through, struct by_program **out);
/* A part of a plan, under a version of its own. `helped` may be NULL. */
enum banyan_status by_program_get_part(struct by_domain *domain, struct by_helped *helped, const struct by_plan *plan,
                                       const struct by_class *class_, uint32_t part, uint32_t version,
                                       enum banyan_collective collective, uint32_t root, struct by_program **out);
/* For collectives of no elements: all ranks exchange a byte, without helpers. */
enum banyan_status by_program_get_empty(struct by_domain *domain, struct by_program **out);
enum banyan_status by_program_get_pair(struct by_domain *domain, bool sends, uint32_t peer, struct by_program **out);
void by_programs_retire(struct by_domain *domain);
/* Those of parts of this plan. */
void by_programs_retire_of(struct by_domain *domain, const struct by_helped *helped);
void by_program_destroy(struct by_program *program);
enum banyan_status by_program_take_call(struct by_program *program, struct by_call **out);
void by_program_give_call(struct by_call *call);
void by_call_free(struct by_call *call);

/* start.c */
struct by_call *by_domain_find(const struct by_domain *domain, const struct by_frame *frame, uint32_t rank);
void by_call_end(struct by_call *call, enum banyan_status status);
void by_call_drop(struct by_call *call);
const char *by_call_describe(const struct by_frame *stamp, char *text, size_t room);

/* Fills a call for a user's one: descriptor, bounds, scratch; buffers begin with piece 0. */
enum banyan_status by_call_prepare(struct by_call *call, const struct banyan_call *user, char *send, char *recv);
void by_call_begin(struct by_call *call, const char *name); /* of timelines; NULL: none */
/* All steps are done: that is its end, unless it has parts or is one. */
void by_call_done(struct by_call *call);
enum banyan_status by_call_need(struct by_engine *engine, void **memory, size_t *have, size_t bytes);

/* helped.c */
void by_helped_free(struct by_helped *helped);
/* Which group of which class travels under this version; false: none. `again`: among ranks alone. */
bool by_helped_find(const struct by_helped *helped, uint32_t version, uint32_t *class_, uint32_t *group, bool *again);
bool by_helped_has(const struct by_helped *helped, uint32_t class_);
struct by_helped_group *by_helped_group(const struct by_helped *helped, uint32_t class_, uint32_t group);
/* Frees old ones that no call uses. */
void by_helped_sweep(struct by_domain *domain);

/* joint.c */
/* What is to become of a frame whose call is not under way. */
enum by_stray { BY_STRAY_NONE, BY_STRAY_KEEP, BY_STRAY_DROP };
enum by_stray by_joint_stray(const struct by_domain *domain, const struct by_frame *frame);
/* The part that a frame is for; NULL: it is not under way. */
struct by_call *by_joint_find(const struct by_call *whole, const struct by_frame *frame);
/* Part i of what is under way for a call, from 0; NULL: there are no more. */
const struct by_call *by_joint_part(const struct by_call *whole, uint32_t i);
bool by_joint_create(struct by_call *call);
void by_joint_free(struct by_joint *joint);
/* Before the call begins; on failure it is as before. */
enum banyan_status by_joint_prepare(struct by_call *whole, const struct banyan_call *user);
void by_joint_begin(struct by_call *whole);
/* Its parts, when it ends. */
void by_joint_end(struct by_call *whole);
void by_joint_lost(struct by_call *whole);
void by_due_add(struct by_call *call);
void by_due_run(struct by_engine *engine);

/* aid.c: of helpers */
struct by_call *by_aid_find(const struct by_domain *domain, const struct by_frame *frame);
/* A frame of no call under way. *call is the one that was made for it; NULL: it is to be kept (`keep`) or dropped. */
enum banyan_status by_aid_take(struct by_link *link, const struct by_frame *frame, struct by_call **call, bool *keep);
void by_aid_ended(struct by_call *call);
void by_aid_forget(struct by_call *call);
/* Gives up those of groups that are lost. */
void by_aid_lost(struct by_domain *domain);
/* Frames that were kept: their plan may be known now, or there may be room. */
void by_aid_retry(struct by_engine *engine);

/* work.c */
void by_work_queue(struct by_call *call, uint32_t step);
/* When a call starts: what can go out goes to its link at once, what can be copied is queued. */
void by_work_start(struct by_call *call, uint32_t index);
/* Runs at most `most` units of the call's queue. */
bool by_work_run(struct by_call *call, uint32_t most);
/* Bytes of message `in` that lie in a lane's memory: added or copied from there if their turn has come. Returns
 * how many were used. */
size_t by_work_direct(struct by_in *in, const char *bytes, size_t n);
void by_work_sent(struct by_out *out);
/* Grants what may be granted of a message now. */
void by_work_granting(struct by_in *in);
/* Whether every byte of a message can be stored or added as it comes. */
bool by_work_runs_free(const struct by_in *in);
/* When a call starts: grants what needs no room. The word goes out in front of the call's own data, so that peers
 * seldom have to wait for it. Such grants may come before their call is made; so only few calls send them. */
void by_work_grant_ahead(struct by_call *call);
/* Whether calls like it have messages that are worth it; bounds and pair are set. */
bool by_work_may_grant(const struct by_call *call);
/* Whether a message is so large that it is better stored past the cache. */
bool by_work_streams(const struct by_in *in);
/* Where bytes of a message from `at` on go: room for at most *n bytes now. */
char *by_work_target(struct by_in *in, uint64_t at, size_t *n);
void by_work_arrived(struct by_in *in, size_t n);

/* link.c */
void by_link_queue(struct by_out *out);
void by_link_note(struct by_in *in);
/* Whether the receiver reads the message in this process's memory; the link has a lane. */
bool by_link_offers(struct by_out *out);
/* Sends what can be sent; false: something is left that the lane does not take now. */
bool by_link_flush(struct by_link *link);
/* Asks for a lane, once. */
void by_link_want(struct by_link *link);
/* One frame without regard to flow; the payload is small and copied by the lane. False: not now. */
bool by_link_send_small(struct by_link *link, struct by_frame *frame, const void *payload);
/* Has the link flushed soon. */
void by_link_touch(struct by_link *link);
/* Has the peer told that a region of this process is gone. */
void by_link_forget(struct by_link *link, uint32_t region);
/* Has the sender told that all of a message has been taken, though its call goes away. */
void by_link_owe(const struct by_in *in);
/* Has the sender told to send all of a message, though its call goes away: what comes is thrown away, and its memory
 * not needed any more. */
void by_link_let_come(const struct by_in *in);
/* The same of its memory, where a message begins that no call here will take. */
void by_link_decline(struct by_link *link, const struct by_frame *frame);
void by_link_drop_call(struct by_link *link, const struct by_call *call);

/* through.c: links to servers */
/* When a call begins: all that it will give to fabrics, in order. */
void by_through_begin(struct by_call *call);
/* Gives the fabric what is new. */
void by_through_flush(struct by_link *link);
/* Takes from it what is new. */
void by_through_progress(struct by_link *link);
/* The call goes away; if the fabric is still at it, that is the fabric's end. */
void by_through_drop(struct by_link *link, const struct by_call *call);

/* letter.c */
/* Sends what letters there are; false: the lane takes no more now. */
bool by_letters_send(struct by_link *link);
/* A part of one begins; what is wrong with it, or NULL. */
const char *by_letter_begin(struct by_link *link, const struct by_frame *frame);
/* Reads more of it; false: there is none. */
bool by_letter_receive(struct by_end *end);
/* All of the part is here. */
void by_letter_end(struct by_link *link);
void by_letters_fini_link(struct by_link *link);
void by_letters_fini(struct by_engine *engine);

/* deliver.c */
bool by_deliver(struct by_end *end);
/* Hands a new call the frames that came before it. */
void by_deliver_stored(struct by_call *call, struct by_link *link);
/* Throws away the frames that came for calls of a domain that will not be made. */
void by_deliver_forget(struct by_link *link, uint32_t domain);
/* The same for one call, and one version; 0: any. */
void by_deliver_forget_call(struct by_link *link, uint32_t domain, uint32_t call, uint32_t version);

/* engine.c */
/* The end's lane has failed: that is an error unless nobody misses it. */
void by_link_failed(struct by_end *end);
/* The same for a helper's or server's link, for this reason. */
void by_link_given_up(struct by_link *link, const char *why);
const char *by_engine_name(const struct by_engine *engine, uint32_t process, char *text);
void by_engine_count_allocation(struct by_engine *engine);

/* pool.c */
char *by_engine_take_stage(struct by_engine *engine);
void by_engine_give_stage(struct by_engine *engine, char *stage);
/* Makes the rings that are wanted, so that none is made while bytes move. */
void by_engine_reserve_stages(struct by_engine *engine);
char *by_engine_block(struct by_engine *engine, uint32_t index);
enum banyan_status by_engine_need_sources(struct by_engine *engine, uint32_t n);
/* Memory for a frame that came too early, and back. NULL: none left. */
struct by_stored *by_engine_take_stored(struct by_engine *engine, uint32_t size);
void by_engine_give_stored(struct by_engine *engine, struct by_stored *stored);
void by_engine_free_pools(struct by_engine *engine);

#endif
