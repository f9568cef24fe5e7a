/* Times Gloo's collectives over its TCP transport (Gloo has none for shared memory).
 *
 * Starts its own ranks (-n) on the loopback interface and lets them meet in a temporary directory. With --meet it is
 * one rank, BANYAN_RANK of BANYAN_SIZE, on a host of its own, whose name has an address. Algorithms: ring and bcube of
 * the function gloo::allreduce; and the older classes class_ring, class_ring_chunked, class_halving_doubling,
 * class_bcube, which work only in place (peer_call() copies first). A class may have "+sync" (blocking sockets) or
 * "+poll" (busy polling) after its name. Of other collectives Gloo has one algorithm each: functions, and a class for
 * reduce_scatter, which works in place, so that the terms are copied first.
 */
#include "peer_common.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#if GLOO_HAVE_TRANSPORT_TCP_TLS
#include <gloo/transport/tcp/tls/device.h>
#endif

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

/* A reduce_scatter of so many elements: Gloo prepares it once. */
struct scatter {
  std::vector<float> terms;
  std::unique_ptr<gloo::Algorithm> algorithm;
};

/* Two contexts: pairs that are made synchronous can do nothing but the old classes. */
struct gloo_state {
  std::shared_ptr<gloo::rendezvous::Context> timed, control;
  std::unique_ptr<gloo::Algorithm> algorithm;
  std::unique_ptr<gloo::AllreduceOptions> options;
  std::map<size_t, scatter> scatters; /* by the number of elements */
  std::string name;
};

gloo_state *state_of(struct peer *peer) {
  return static_cast<gloo_state *>(peer->state);
}

void barrier(struct peer *peer) {
  gloo::BarrierOptions options(state_of(peer)->control);
  gloo::barrier(options);
}

void prepare_function(gloo_state *state, const float *send, float *recv, size_t count) {
  auto options = std::make_unique<gloo::AllreduceOptions>(state->timed);
  if (send != recv) options->setInput(const_cast<float *>(send), count);
  options->setOutput(recv, count);
  options->setReduceFunction(static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
  options->setAlgorithm(state->name == "bcube" ? gloo::AllreduceOptions::Algorithm::BCUBE
                                               : gloo::AllreduceOptions::Algorithm::RING);
  state->options = std::move(options);
}

void prepare(struct peer *peer, const float *send, float *recv, size_t count) {
  gloo_state *state = state_of(peer);
  if (!peer->only_in_place) return prepare_function(state, send, recv, count);
  std::vector<float *> pointers = {recv};
  int n = static_cast<int>(count);
  state->algorithm.reset();
  if (state->name.find("class_ring_chunked") == 0)
    state->algorithm = std::make_unique<gloo::AllreduceRingChunked<float>>(state->timed, pointers, n);
  else if (state->name.find("class_ring") == 0)
    state->algorithm = std::make_unique<gloo::AllreduceRing<float>>(state->timed, pointers, n);
  else if (state->name.find("class_halving_doubling") == 0)
    state->algorithm = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(state->timed, pointers, n);
  else
    state->algorithm = std::make_unique<gloo::AllreduceBcube<float>>(state->timed, pointers, n);
  barrier(peer); /* nobody writes into a rank that has no buffers yet */
}

void allreduce(struct peer *peer, const float *, float *, size_t) {
  gloo_state *state = state_of(peer);
  if (state->algorithm)
    state->algorithm->run();
  else
    gloo::allreduce(*state->options);
}

scatter &scatter_of(struct peer *peer, size_t count) {
  gloo_state *state = state_of(peer);
  scatter &made = state->scatters[count];
  if (made.algorithm) return made;
  made.terms.resize(count);
  std::vector<float *> pointers = {made.terms.data()};
  std::vector<int> counts(static_cast<size_t>(peer->ranks), static_cast<int>(count) / peer->ranks);
  made.algorithm = std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(
      state->timed, pointers, static_cast<int>(count), counts, gloo::ReductionFunction<float>::sum);
  barrier(peer); /* nobody writes into a rank that has no buffers yet */
  return made;
}

void reduce_scatter(struct peer *peer, float *send, float *recv, size_t count) {
  scatter &made = scatter_of(peer, count);
  memcpy(made.terms.data(), send, count * sizeof *send);
  made.algorithm->run();
  memcpy(recv, made.terms.data(), count / static_cast<size_t>(peer->ranks) * sizeof *recv);
}

void allgather(struct peer *peer, float *send, float *recv, size_t count) {
  gloo::AllgatherOptions options(state_of(peer)->timed);
  options.setInput(send, count / static_cast<size_t>(peer->ranks));
  options.setOutput(recv, count);
  gloo::allgather(options);
}

void broadcast(struct peer *peer, float *recv, size_t count) {
  gloo::BroadcastOptions options(state_of(peer)->timed);
  options.setOutput(recv, count);
  options.setRoot(0);
  gloo::broadcast(options);
}

void alltoall(struct peer *peer, float *send, float *recv, size_t count) {
  gloo::AlltoallOptions options(state_of(peer)->timed);
  options.setInput(send, count);
  options.setOutput(recv, count);
  gloo::alltoall(options);
}

void combine(struct peer *peer, double *values, size_t count, gloo::AllreduceOptions::Func function) {
  gloo::AllreduceOptions options(state_of(peer)->control);
  options.setOutput(values, count);
  options.setReduceFunction(function);
  gloo::allreduce(options);
}

void max_to_0(struct peer *peer, double *values, size_t count) {
  combine(peer, values, count, static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::max<double>));
}

void sum_to_0(struct peer *peer, double *value) {
  combine(peer, value, 1, static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<double>));
}

void broadcast_from_0(struct peer *peer, long *value) {
  double mine = peer->rank == 0 ? static_cast<double>(*value) : 0;
  sum_to_0(peer, &mine);
  *value = static_cast<long>(mine);
}

/* Where this rank's peers find it. */
std::string own_address(const struct peer_options *options) {
  char name[256] = "";
  if (!options->meet) return "127.0.0.1";
  gethostname(name, sizeof name - 1);
  return name;
}

/* Since 2024 a context shares the store, before that it borrows it. */
template <typename Context, typename Store, typename Device>
auto connect_mesh(Context &context, Store store, Device &device, int)
    -> decltype(context.connectFullMesh(store, device)) {
  return context.connectFullMesh(store, device);
}

template <typename Context, typename Store, typename Device>
void connect_mesh(Context &context, Store store, Device &device, long) {
  context.connectFullMesh(*store, device);
}

/* With TLS, if Gloo was built with it, by the variables that PyTorch reads. */
std::shared_ptr<gloo::transport::Device> make_device(const gloo::transport::tcp::attr &attr) {
  const char *transport = getenv("GLOO_DEVICE_TRANSPORT");
  if (!transport || strcmp(transport, "TCP_TLS") != 0) return gloo::transport::tcp::CreateDevice(attr);
#if GLOO_HAVE_TRANSPORT_TCP_TLS
  auto file = [](const char *name) {
    const char *path = getenv((std::string("GLOO_DEVICE_TRANSPORT_TCP_TLS_") + name).c_str());
    return std::string(path ? path : "");
  };
  return gloo::transport::tcp::tls::CreateDevice(attr, file("PKEY"), file("CERT"), file("CA_FILE"), "");
#else
  fprintf(stderr, "this Gloo was built without TLS\n");
  exit(2);
#endif
}

std::shared_ptr<gloo::rendezvous::Context> connect(const struct peer_options *options, const std::string &directory,
                                                   int rank) {
  int ranks = options->ranks;
  gloo::transport::tcp::attr attr(own_address(options).c_str());
  auto device = make_device(attr);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  connect_mesh(*context, std::make_shared<gloo::rendezvous::FileStore>(directory), device, 0);
  return context;
}

int run_rank(const struct peer_options *options, const std::string &directory, int rank) {
  if (options->pin) peer_pin(rank);
  gloo_state state;
  state.name = options->algorithm;
  state.timed = connect(options, directory + "/timed", rank);
  state.control = connect(options, directory + "/control", rank);
  struct peer peer = {};
  peer.impl = "gloo";
  peer.rank = rank;
  peer.ranks = options->ranks;
  peer.state = &state;
  peer.only_in_place = state.name.find("class_") == 0;
  peer.prepare = prepare;
  peer.allreduce = allreduce;
  peer.reduce_scatter = reduce_scatter;
  peer.allgather = allgather;
  peer.broadcast = broadcast;
  peer.alltoall = alltoall;
  peer.barrier = barrier;
  peer.broadcast_from_0 = broadcast_from_0;
  peer.max_to_0 = max_to_0;
  peer.sum_to_0 = sum_to_0;
  bool poll = state.name.find("+poll") != std::string::npos;
  if (poll || state.name.find("+sync") != std::string::npos)
    for (int other = 0; other < options->ranks; other++)
      if (other != rank) state.timed->getPair(other)->setSync(true, poll);
  int status = peer_main_loop(&peer, options);
  barrier(&peer);
  fflush(stdout);
  _exit(status); /* tearing synchronous pairs down may throw when the other side went first */
}

int start_ranks(const struct peer_options *options, const std::string &directory) {
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < options->ranks; rank++) {
    pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      _exit(run_rank(options, directory, rank));
    }
    ranks.push_back(pid);
  }
  int failed = 0;
  for (size_t left = ranks.size(); left; left--) {
    int status;
    wait(&status);
    if (status && !failed++)
      for (pid_t pid : ranks) kill(pid, SIGKILL);
  }
  return failed != 0;
}

} // namespace

void make_stores(const std::string &directory) {
  for (const char *name : {"/timed", "/control"}) std::filesystem::create_directory(directory + name);
}

/* One of the ranks that somebody else has started. */
int be_rank(struct peer_options *options) {
  const char *rank = getenv("BANYAN_RANK"), *ranks = getenv("BANYAN_SIZE");
  if (!rank || !ranks) {
    fprintf(stderr, "--meet: BANYAN_RANK and BANYAN_SIZE are not set\n");
    return 2;
  }
  options->ranks = atoi(ranks);
  make_stores(options->meet);
  return run_rank(options, options->meet, atoi(rank));
}

int main(int argc, char **argv) {
  struct peer_options options;
  peer_parse_options(&options, argc, argv);
  if (options.meet) return be_rank(&options);
  std::string directory = std::filesystem::temp_directory_path() / "bench-gloo-XXXXXX";
  if (!mkdtemp(directory.data())) return 1;
  make_stores(directory);
  int status = start_ranks(&options, directory);
  std::filesystem::remove_all(directory);
  return status;
}
