/* Inside the executor: calls, messages, links. Shared by its files only.
 *
 * A program is a compiled schedule with its peers' links and a store of call
 * objects that have run before, so that a call in steady state allocates
 * nothing. A call's steps advance through a work queue: whatever moves a step
 * queues the steps that depend on it. */
#ifndef BY_EXECUTOR_CALL_H
#define BY_EXECUTOR_CALL_H

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
};

enum by_in_source { BY_IN_NOTHING, BY_IN_DATA, BY_IN_MAPPED, BY_IN_PULLED };

/* Bytes of a message that came before those in front of them, over another lane: sorted, apart from each other. */
struct by_ahead {
  uint32_t n, room;
  struct by_range {
    uint64_t from, to;
  } ranges[];
};

/* A message being received. Bytes below `arrived` are there; below `consumed`, used. */
struct by_in {
  struct by_call *call;
  struct by_link *link;
  struct by_in *note_next; /* in the link's list of messages with something to tell */
  uint64_t length, arrived, consumed, granted;
  char *stage; /* ring of the engine's `window` bytes; NULL while nothing waits in it */
  const char *mapped;
  struct by_ahead *ahead; /* NULL until the first time */
  struct by_offer offer;
  uint32_t incoming; /* index in the schedule */
  uint8_t source;    /* enum by_in_source */
  bool asked, held, noted, tell_done, tell_refuse, tell_grant;
};

struct by_state {
  uint64_t at, end; /* bytes of the layout; at == end: the step is done */
  bool queued, done;
};

struct by_program {
  struct by_program *next;
  struct by_domain *domain;
  const struct by_class *class_;
  struct by_schedule *schedule;
  struct by_link **links;    /* of the schedule's peers */
  struct by_call *idle;      /* calls that can be used again */
  struct by_call *all;       /* every call that was made for it */
  uint32_t running;          /* calls in use */
  uint32_t *out_of_step;     /* index into a call's outs */
  uint32_t *first_out;       /* of each peer: a call's outs are ordered by peer and tag */
  uint32_t n_outs, n_staged; /* messages to be added: each may need a ring */
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
  void *scratch; /* tmp buffer and its size, kept for the next call */
  size_t scratch_bytes;
  enum banyan_status status;
  bool taken, ended, released, pair, ready;
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
  struct by_stored *filling; /* or is kept for a later call */
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
  bool suspected;   /* its end has been reported */
  bool wanted;      /* a lane was asked for */
  bool holds;       /* lanes may have small frames, or a part of one, until they are flushed */
  bool left, never; /* its process left on purpose; so that there never will be a lane if there is none */
  uint32_t turn;    /* end that takes the next part of a large message */
  uint32_t kept;    /* ends that hold a payload */
  struct by_out *outs, **outs_end;
  struct by_in *notes, **notes_end;
  uint32_t running;       /* calls under way that use this link */
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
  struct by_link *links;
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
  uint32_t active; /* ends with a lane */
  uint32_t never;  /* links without a lane that never will have one */
  struct by_end **ends;
  enum banyan_status status;
  char error[BY_TEXT_BYTES];
  struct banyan_counters counters;
  struct by_link *dirty, **dirty_end;
  struct by_stored *spare[BY_SPARES];     /* stored frames' memory for the next ones, by size */
  struct by_call *ready, **ready_end;     /* calls with work in their queue */
  uint64_t ended_then, ask_at, ask_after; /* how many had ended; when to ask if no more have; how long that is */
  uint64_t verdict_at;                    /* a call is late, and somebody asks why until then; 0: none is */
  uint32_t *gone, n_gone, gone_room;      /* numbers of domains that were destroyed: peers may still send for them */
  bool moved;
};

/* program.c */
enum banyan_status by_program_get(struct by_domain *domain, const struct by_class *class_,
                                  enum banyan_collective collective, uint32_t root, struct by_program **out);
enum banyan_status by_program_get_pair(struct by_domain *domain, bool sends, uint32_t peer, struct by_program **out);
void by_programs_retire(struct by_domain *domain);
void by_program_destroy(struct by_program *program);
enum banyan_status by_program_take_call(struct by_program *program, struct by_call **out);
void by_program_give_call(struct by_call *call);
void by_call_free(struct by_call *call);

/* start.c */
struct by_call *by_domain_find(const struct by_domain *domain, const struct by_frame *frame, uint32_t rank);
void by_call_end(struct by_call *call, enum banyan_status status);
void by_call_drop(struct by_call *call);
const char *by_call_describe(const struct by_frame *stamp, char *text, size_t room);

/* work.c */
void by_work_queue(struct by_call *call, uint32_t step);
/* Runs at most `most` units of the call's queue. */
bool by_work_run(struct by_call *call, uint32_t most);
/* Bytes of message `in` that lie in a lane's memory: added or copied from there if their turn has come. Returns
 * how many were used. */
size_t by_work_direct(struct by_in *in, const char *bytes, size_t n);
void by_work_sent(struct by_out *out);
/* Grants what may be granted of a message now. */
void by_work_granting(struct by_in *in);
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
/* Has the link flushed soon. */
void by_link_touch(struct by_link *link);
/* Has the peer told that a region of this process is gone. */
void by_link_forget(struct by_link *link, uint32_t region);
/* Has the sender told that all of a message has been taken, though its call goes away. */
void by_link_owe(const struct by_in *in);
void by_link_drop_call(struct by_link *link, const struct by_call *call);

/* deliver.c */
bool by_deliver(struct by_end *end);
/* Hands a new call the frames that came before it. */
void by_deliver_stored(struct by_call *call, struct by_link *link);
/* Throws away the frames that came for calls of a domain that will not be made. */
void by_deliver_forget(struct by_link *link, uint32_t domain);

/* engine.c */
/* The end's lane has failed: that is an error unless nobody misses it. */
void by_link_failed(struct by_end *end);
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
