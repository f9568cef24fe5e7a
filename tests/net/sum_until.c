/* sum_until DONE SUMS [SECONDS]: what a rank of test_lab_cells.sh and of bench/cluster_soak.py runs. Makes the file
 * SUMS anew after each sum, goes on until there is the file DONE, by rank 0's word, or for SECONDS, and says how many
 * numbers were wrong; ends with 1 if one was. Where BANYAN_TEST_PLAN names a file, all ranks set the plan that rank 0
 * reads there, whenever it is another one; "default" sets none. */
#include <banyan/banyan.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 30000, TEXT = 256, LONGEST = 120 /* s: the test has failed before */ };

static int sum(struct banyan_comm *comm, float *numbers) {
  int rank = banyan_comm_rank(comm), ranks = banyan_comm_size(comm), wrong = 0;
  for (int i = 0; i < COUNT; i++) numbers[i] = (float)(i % 1000 + rank);
  if (banyan_allreduce(comm, numbers, numbers, COUNT, BANYAN_FLOAT32, BANYAN_SUM) != BANYAN_OK) return -1;
  for (int i = 0; i < COUNT; i++) wrong += numbers[i] != (float)(ranks * (i % 1000) + ranks * (ranks - 1) / 2);
  return wrong;
}

static int follow_plan(struct banyan_comm *comm, char *set) {
  char wanted[TEXT] = "";
  const char *path = getenv("BANYAN_TEST_PLAN");
  FILE *file = path && banyan_comm_rank(comm) == 0 ? fopen(path, "r") : NULL;
  if (file && fgets(wanted, TEXT, file)) wanted[strcspn(wanted, "\n")] = '\0';
  if (file) fclose(file);
  if (banyan_broadcast(comm, wanted, TEXT, BANYAN_UINT8, 0) != BANYAN_OK) return -1;
  if (!*wanted || !strcmp(wanted, set)) return 0;
  strcpy(set, wanted);
  return banyan_comm_set_plan(comm, strcmp(set, "default") ? set : NULL) == BANYAN_OK ? 0 : -1;
}

int main(int argc, char **argv) {
  static float numbers[COUNT];
  static char plan[TEXT];
  struct banyan_comm *comm;
  time_t until = time(NULL) + (argc == 4 ? atoi(argv[3]) : LONGEST);
  int wrong = 0;
  if (argc < 3 || argc > 4 || banyan_comm_create(NULL, &comm) != BANYAN_OK) {
    fprintf(stderr, "%s\n", banyan_error_text());
    return 1;
  }
  for (int32_t over = 0; !over && wrong == 0;) {
    wrong = sum(comm, numbers);
    FILE *sums = wrong ? NULL : fopen(argv[2], "w");
    if (sums) fclose(sums);
    over = access(argv[1], F_OK) == 0 || time(NULL) > until;
    if (banyan_broadcast(comm, &over, 1, BANYAN_INT32, 0) != BANYAN_OK) wrong = -1;
    if (!over && wrong == 0) wrong = follow_plan(comm, plan);
    usleep(20000);
  }
  printf("%d wrong\n", wrong);
  if (wrong) fprintf(stderr, "%s\n", banyan_error_text());
  banyan_comm_destroy(comm);
  return wrong != 0;
}
