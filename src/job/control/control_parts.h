/* Inside control: shared by its files only. Everything on the loop's thread. */
#ifndef BY_JOB_CONTROL_CONTROL_PARTS_H
#define BY_JOB_CONTROL_CONTROL_PARTS_H

#include "control.h"
#include "dialer.h"
#include "inquiry.h"
#include "log.h"
#include "stream.h"
#include "words.h"

enum {
  PURPOSE_CONTROL = 'C',
  MOST_FRAME = 16 << 20,
  MOST_QUEUED = 32 << 20,
  MOST_WAITING = MOST_QUEUED - (1 << 20), /* of them for plans: other words are short, and none may be missed */
  HELLO_MOST = 8192,
  TEXT_MOST = BY_WORD_TEXT,
  RETRY_MS = 20,     /* until rank 0 listens */
  MOST_HANGUPS = 24, /* by so many times that the pause grows where it hangs up */
  REFUSED_MS = 5000, /* for an address where somebody else answers, while others may be rank 0's */
  REPORT_MS = 5000,  /* until it is said who is missing at the start, */
  REPORT_EVERY_MS = 15000,
  MOST_NAMED = 32,   /* ranks that an error lists, */
  TRIED_MOST = 800,  /* and bytes of what was tried */
  ABSENCE_MS = 1000, /* for a rank to come again that left while the job was starting, or to leave that came again */
  TELLING_MS = 3000, /* that a start has failed for want of descriptors, one rank at a time */
  GRACE_MS = 500,    /* for rank 0's word on a death, and on who is missing */
  ANSWERS_MS = 1500, /* for what ranks answer to an inquiry, */
  SILENCE_MS = 5000  /* and for a sign of life of helpers */
};

enum message {
  WELCOME = 1,
  REFUSED = 2,
  FAILED = 3,
  SUSPECT = 4,
  LEAVING = 5,
  ASK = 6,
  DESCRIBE = 7,
  DESCRIPTION = 8,
  LEFT = 9,     /* rank 0's word that these ranks have left */
  PLAN = 10,    /* rank 0's to helpers: a communicator's plan */
  LOST = 11,    /* rank 0's word that a helper or server is gone */
  TREE = 12,    /* rank 0's to one worker or server of a tree through switches: what it must know */
  MOVE = 13,    /* to another plan: see move.h */
  LISTEN = 14,  /* others have submitted what this rank has not */
  CLASS = 15,   /* rank 0's: in which this process is to send */
  JOINED = 16,  /* rank 0's word that a helper comes */
  KNOWN = 17,   /* the answer: this process knows it */
  TIMELINE = 20 /* see timeline_message.h */
};

/* At rank 0: one for each connection that was made to it. At others: the one to rank 0. */
struct end {
  struct end *next;
  struct by_control *control;
  struct by_stream *stream;
  int64_t rank;       /* -1: not known yet */
  bool authenticated; /* the handshake is over */
  bool leaving, over;
  uint64_t doubted_at; /* when another process first claimed to be this rank; 0: none did */
  bool silent;         /* a helper that has not answered yet, */
  uint64_t asked_at;   /* what it was asked then */
  bool asked;          /* whether it knows the helper that comes */
};

/* Ranks that have left, in the order of hearing of it. */
struct by_leavers {
  uint32_t *ranks, n, told; /* the first `told` of them are known to the job, and from rank 0 to all */
  struct by_timer due;
};

struct by_control {
  struct by_job *job;
  struct by_connector *connector;
  struct by_timeline *timeline;
  struct by_control_events events;
  struct by_key key;
  uint8_t hello[HELLO_MOST];
  size_t hello_length;
  char given_plan[BY_PLAN_MOST_NAME + 1]; /* the plan that this rank was given, and its version; see by_join */
  uint32_t given_version;
  struct end *ends;
  struct end **of_rank;          /* rank 0 only; by process */
  uint32_t joined, helpers;      /* ranks, helpers */
  uint32_t absent;               /* rank 0: who left, while `absence` is set */
  bool waits_for_helpers;        /* rank 0: all ranks are there */
  struct by_acceptor *acceptor;  /* rank 0 only */
  struct by_admission admission; /* rank 0: connections whose peers have not authenticated, */
  struct by_repeats rejected;    /* and the log of those that never did */
  struct by_timer grace, answers, absence;
  struct by_dialer *dialer; /* to rank 0, until this rank has joined; NULL: this is rank 0 */
  uint32_t hangups;         /* of rank 0, one after the other, before it said welcome */
  char failed[TEXT_MOST];   /* at rank 0: why the last connection of an unknown process failed; "": none did */
  bool done, told;          /* joined; the job's failure has been told */
  enum banyan_status status;
  char text[TEXT_MOST];         /* why; with status BANYAN_OK: who is absent */
  struct suspicion *suspicions; /* oldest first: the grace is for that one */
  struct by_leavers leavers;
  struct by_inquiry *inquiry; /* rank 0 only; NULL: none is under way */
  uint32_t inquiries;
  bool apart; /* the last one found that two processes cannot reach each other, which has been said */
  bool *lost; /* by process: a helper that is gone */
  struct by_newcomer *newcomers;      /* rank 0: helpers that come; the first one is being made known, */
  struct by_timer known_late;         /* which takes long */
  struct by_control_tree *trees;      /* rank 0: through switches, */
  struct by_control_switch *switches; /* which are asked; */
  struct by_timer switches_due;       /* while a tree waits for them, */
  uint64_t cells_until;               /* or for the manager's word on their memory; 0: it does not */
  struct by_control_wished *wished;   /* what that is about, in its order */
  uint32_t n_wished;
  bool trees_used, trees_released; /* by the plan that is set, under the job's lock; no cells are wished for */
  uint32_t trees_until;            /* calls from this one on do not use them; under the job's lock */
  struct by_timer release;
  struct by_control_word *words; /* came before there was an engine, the oldest first */
  struct by_timer words_due, silence;
  struct by_control_move *moves; /* rank 0: to other plans, not yet decided on */
  uint32_t n_moves;              /* that there have been */
  struct by_wanted_links *links; /* of a helper: for moves, asked for by rank 0 */
  struct by_timer links_due;
  struct by_timer moves_due;
  bool listens;                    /* LISTEN has been sent */
  uint32_t class_;                 /* rank 0: that was told to helpers and servers, */
  bool has_class, class_for_ranks; /* if one was; and to ranks */
  _Atomic bool leaving, deaf;      /* deaf: rank 0 has left */
};

/* control.c: a connection, to be accepted or (`connecting` not NULL) made, with a handshake. NULL: that failed; the
 * socket is closed. */
struct end *by_control_new_end(struct by_control *control, int fd, const struct by_address *connecting,
                               enum by_role role);
void by_control_drop_end(struct end *end);
/* There will be no job; the first reason counts. */
void by_control_give_up(struct by_control *control, enum banyan_status status, const char *text);
/* A word that must not be missed: where there is no room for it, that other end is given up. False: it is. */
bool by_control_say(const struct end *end, enum message type, const void *bytes, size_t length);
void by_control_cut(const struct end *end, const char *why);
/* One message with a text, likewise. */
void by_control_send_text(struct end *end, enum message type, enum banyan_status status, uint32_t process,
                          const char *text);
/* this fails the job, here and, from rank 0, everywhere. */
void by_control_heard_failure(struct by_control *control, enum banyan_status status, uint32_t process,
                              const char *text);

/* The same, by a verdict of this rank's own: it goes to rank 0. */
void by_control_fail(struct by_control *control, enum banyan_status status, uint32_t process, const char *text);

/* control_meeting.c: until all have joined, or the deadline for that has passed. */
enum banyan_status by_control_meet(struct by_control *control, const struct by_member *self) BANYAN_CHECK;
void by_control_refuse(struct end *end, const char *text);
/* Rank 0: all have joined who will. */
void by_control_welcome(struct by_control *control);
/* Rank 0: the list of members, as this process is to have it. */
BANYAN_CHECK enum banyan_status by_control_send_welcome(struct by_control *control, uint32_t process);
void by_control_opened(void *context, uint8_t purpose, const void *hello, size_t length);
void by_control_heard_welcome(struct by_control *control, const void *payload, size_t length);
void by_control_lost_while_joining(struct end *end, enum banyan_status status, const char *reason);
void by_control_absence_over(void *argument);

/* control_suspects.c: a lane to this process ended, here or, at rank 0, elsewhere. */
void by_control_suspect_here(struct by_control *control, uint32_t process, const char *text);
void by_control_grace_over(void *context);
void by_control_forget_suspects(struct by_control *control);

/* control_leaving.c: this rank said so, or rank 0 says so of these. */
void by_control_heard_leaving(struct by_control *control, uint32_t rank);
void by_control_heard_left(struct end *end, const void *payload, size_t length);
void by_control_leavers_due(void *argument);
/* At rank 0: tells those that the others have not heard of yet. */
void by_control_tell_leavers(struct by_control *control);
bool by_control_has_left(const struct by_control *control, uint32_t rank);

/* control_helpers.c: helpers and servers */
/* Rank 0: their hello. */
void by_control_helper_joins(struct end *end, const struct by_member *member);
/* Rank 0: it left while the job was starting. */
void by_control_helper_left(struct by_control *control, uint32_t process);
/* Rank 0: this helper is gone; told to all, once. */
void by_control_lose(struct by_control *control, uint32_t process, const char *text);
/* Because it says nothing. */
void by_control_lose_silent(struct by_control *control, uint32_t process);
/* Rank 0: nothing goes on. Asks those helpers too that do not owe an answer, and gives up whoever is silent for
 * SILENCE_MS. */
void by_control_ask_helpers(struct by_control *control, const uint8_t *number, size_t length);
void by_control_silence_over(void *argument);
/* PLAN, LOST and TREE. */
void by_control_heard_word(struct by_control *control, uint16_t type, const void *payload, size_t length);
void by_control_words_due(void *argument);
void by_control_forget_words(struct by_control *control);
bool by_control_is_helper(const struct by_control *control, int64_t process);

/* control_newcomers.c: helpers that come while the job runs. At rank 0: */
void by_control_newcomer_joins(struct end *end, const struct by_member *member);
void by_control_heard_known(struct end *end);
/* Helpers have not said it for long. */
void by_control_known_late(void *argument);
/* It will say nothing more. */
void by_control_newcomer_lost(struct end *end);
void by_control_forget_newcomers(struct by_control *control);
/* JOINED, at the others. */
void by_control_heard_joined(struct by_control *control, const void *payload, size_t length);

/* control_trees.c */
void by_control_forget_trees(struct by_control *control);

/* control_moves.c: MOVE */
void by_control_heard_move(struct end *end, const void *payload, size_t length);
/* Those that were put off. */
void by_control_moves_due(void *argument);
/* This process takes part in nothing more; why. */
void by_control_drop_moves_with(struct by_control *control, uint32_t process, const char *why);
void by_control_forget_moves(struct by_control *control);

/* control_class.c: CLASS, to one that has come later */
void by_control_tell_class_to(struct end *end);
void by_control_heard_class(struct by_control *control, const void *payload, size_t length);

/* control_links.c: what helpers do about LINK and DROP */
void by_control_links_due(void *argument);
void by_control_forget_links(struct by_control *control);

/* control_listen.c: LISTEN */
void by_control_heard_listen(struct by_control *control);

/* control_inquiry.c. `late` "": nothing is late, but nothing goes on either. */
void by_control_ask_here(struct by_control *control, const char *late, const char *awaited);
void by_control_heard_inquiry(struct end *end, uint16_t type, const void *payload, size_t length);
/* When all have answered, or the time for that is over. */
void by_control_give_verdict(void *context);

#endif
