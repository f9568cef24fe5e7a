#include "members.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "check.h"

struct board *board;

bool board_create(void) {
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return board != MAP_FAILED;
}

struct self begin(struct job *job, int id) {
  struct self self = {.job = job, .id = id};
  setenv("BANYAN_HOST", "here", 1);
  must(banyan_member_create(NULL, &self.member));
  snprintf(board->handles[id], HANDLE, "%s", banyan_member_handle(self.member));
  atomic_store(&board->published[id], 1);
  return self;
}

void end(struct self *self) {
  banyan_comm_destroy(self->comm);
  banyan_member_destroy(self->member);
}
