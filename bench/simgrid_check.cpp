// simgrid_check [quick | TOPOLOGY PLAN BYTES]: the same AllReduce in our simulator and in SimGrid, and how far apart
// their times are. Both run the same messages with the same dependencies (src/planner/simulate/simulate.h says what may
// be sent next); what differs is who shares the links and keeps the time. SimGrid's model is CM02 without its factors
// for TCP, which is max-min fair; delays stand outside of it, so that a chunk can be on its way while the next one is
// being sent. Ends with 1 if a difference is above 0.01 %.
#include <simgrid/s4u.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <queue>
#include <string>
#include <vector>

extern "C" {
#include "simulate.h"
#include "topology_formats.h"
}

namespace sg = simgrid::s4u;

static const double ALLOWED = 1e-4;
static const uint64_t CHUNK = 64 << 10;

struct Case {
  const char *topology, *plan;
  uint64_t bytes;
};

static const Case quick[] = {
    {"star:4,nic=1g/1g/1g/200m", "ring", 1 << 20},
    {"star:6,nic=1g,delay=300us", "double-tree", 2 << 20},
    {"clos:racks=3,hosts=3,nic=1g,oversub=3", "halving", 1 << 20},
    {"sites:2x3,lan=1g,wan=200m,rtt=4ms", "tree", 1 << 20},
};

static const Case all[] = {
    {"star:8,nic=1g", "ring", 16 << 20},
    {"star:8,nic=1g,delay=200us", "double-tree", 16 << 20},
    {"star:4,nic=1g/1g/1g/200m", "ring", 16 << 20},
    {"star:4,nic=1g/1g/1g/200m", "halving", 64 << 10},
    {"sites:2x4,lan=1g,wan=200m,rtt=20ms", "ring", 16 << 20},
    {"sites:2x4,lan=1g,wan=200m,rtt=20ms", "tree", 1 << 20},
    {"clos:racks=4,hosts=4,nic=1g,oversub=2", "halving", 16 << 20},
    {"clos:racks=8,hosts=8,nic=10g,oversub=4", "double-tree", 4 << 20},
    {"clos:racks=8,hosts=8,nic=10g,oversub=4", "ring", 16 << 20},
    {"torus:6x6,link=1g", "tree:3", 4 << 20},
    {"torus:6x6,link=1g", "doubling", 1 << 20},
    {"mesh:12,nic=2g,link=1g", "exchange", 1 << 20},
};

static void check(enum banyan_status status) {
  if (status == BANYAN_OK) return;
  fprintf(stderr, "simgrid_check: %s\n", banyan_error_text());
  exit(2);
}

struct Timer {
  double at;
  uint64_t number;
  by_parcel parcel;
  bool operator<(const Timer &other) const {
    return at != other.at ? at > other.at : number > other.number;
  }
};

// One AllReduce as one actor, which starts what may be sent and waits for what ends first.
struct Replay {
  const by_cast *cast;
  const std::vector<sg::Host *> *hosts;
  by_traffic traffic;
  std::vector<sg::CommPtr> comms;
  std::vector<uint32_t> streams; // of comms
  std::priority_queue<Timer> timers;
  uint64_t number = 0;
  double seconds = 0;

  void start_woken() {
    while (traffic.n_woken) {
      uint32_t stream = traffic.woken[traffic.n_woken - 1];
      uint64_t bytes = by_traffic_take(&traffic, stream);
      if (!bytes) continue;
      const by_cast_stream &s = cast->streams[stream];
      sg::Host *from = (*hosts)[cast->rank[s.actor]], *to = (*hosts)[cast->rank[s.to_actor]];
      comms.push_back(sg::Comm::sendto_async(from, to, bytes));
      streams.push_back(stream);
    }
  }

  void leave(size_t place) {
    uint32_t stream = streams[place];
    comms[place] = comms.back();
    streams[place] = streams.back();
    comms.pop_back();
    streams.pop_back();
    by_parcel parcel = by_traffic_leave(&traffic, stream);
    double delay = cast->streams[stream].delay;
    if (delay > 0)
      timers.push({sg::Engine::get_clock() + delay, number++, parcel});
    else
      by_traffic_arrive(&traffic, &parcel);
  }

  void arrive() {
    by_parcel parcel = timers.top().parcel;
    timers.pop();
    by_traffic_arrive(&traffic, &parcel);
  }

  void operator()() {
    check(by_traffic_init(&traffic, cast, CHUNK, UINT32_MAX));
    for (start_woken(); !comms.empty() || !timers.empty(); start_woken()) {
      double until = timers.empty() ? -1 : std::fmax(timers.top().at - sg::Engine::get_clock(), 0);
      if (!timers.empty() && until <= 0) {
        arrive();
      } else if (comms.empty()) {
        sg::this_actor::sleep_for(until);
      } else {
        ssize_t place = sg::Comm::wait_any_for(comms, until);
        if (place >= 0) leave((size_t)place);
      }
      seconds = sg::Engine::get_clock();
    }
    if (traffic.steps_left) {
      fprintf(stderr, "simgrid_check: SimGrid stopped with steps left\n");
      exit(2);
    }
    by_traffic_fini(&traffic);
  }
};

// Links of SimGrid for the resources, a route for each stream.
static std::vector<sg::Host *> build(sg::NetZone *zone, const by_simulator &simulator, const std::string &prefix) {
  const by_stream_paths &ways = simulator.paths;
  std::vector<sg::Host *> hosts;
  std::map<uint32_t, sg::Link *> links;
  for (uint32_t r = 0; r < ways.roles->n; r++)
    hosts.push_back(zone->create_host(prefix + "h" + std::to_string(r), 1e9)->seal());
  for (uint32_t r = 0; r < ways.roles->n; r++)
    for (uint32_t s = ways.first_stream[r]; s < ways.first_stream[r + 1]; s++) {
      std::vector<sg::LinkInRoute> route;
      for (uint32_t i = ways.first[s]; i < ways.first[s + 1]; i++) {
        uint32_t resource = ways.resources[i];
        if (!links.count(resource))
          links[resource] =
              zone->create_link(prefix + "l" + std::to_string(resource), ways.capacity[resource] / 8)->seal();
        route.emplace_back(links[resource]);
      }
      uint32_t peer = by_roles_peer(ways.roles, r, s - ways.first_stream[r]);
      if (!route.empty())
        zone->add_route(hosts[r]->get_netpoint(), hosts[peer]->get_netpoint(), nullptr, nullptr, route, false);
    }
  zone->seal();
  return hosts;
}

// SimGrid runs one network a process.
static int compare(sg::Engine &engine, const Case &c) {
  by_topology *topology;
  by_plan *plan;
  by_simulator simulator;
  by_simulation ours;
  by_simulate_options how = {};
  how.chunk = CHUNK;
  how.max_work = UINT64_MAX;
  uint32_t n = 0;
  check(by_topology_named(c.topology, &topology));
  for (uint32_t i = 0; i < topology->n_nodes; i++) n += topology->nodes[i].takes_part;
  check(by_plan_named(c.plan, n, &plan));
  check(by_simulator_init(&simulator, plan, by_plan_class(plan, c.bytes), topology, UINT32_MAX));
  auto before = std::chrono::steady_clock::now();
  check(by_simulator_run(&simulator, c.bytes, &how, &ours));
  auto between = std::chrono::steady_clock::now();
  std::vector<sg::Host *> hosts = build(sg::create_full_zone("net"), simulator, "");
  Replay replay = {};
  replay.cast = &simulator.cast;
  replay.hosts = &hosts;
  sg::Actor::create("all", hosts[0], std::ref(replay));
  engine.run();
  double took = std::chrono::duration<double>(between - before).count();
  double sg_took = std::chrono::duration<double>(std::chrono::steady_clock::now() - between).count();
  double apart = ours.seconds / replay.seconds - 1;
  printf("| %s | %s | %llu KiB | %.6g | %.6g | %+.3f %% | %.3f | %.2f |\n", c.topology, c.plan,
         (unsigned long long)c.bytes >> 10, 1e3 * ours.seconds, 1e3 * replay.seconds, 100 * apart, took, sg_took);
  by_simulation_fini(&ours);
  by_simulator_fini(&simulator);
  by_plan_destroy(plan);
  by_topology_destroy(topology);
  return std::fabs(apart) > ALLOWED;
}

// A process of its own for each case.
static int run_all(const char *self, const Case *cases, size_t n) {
  int failed = 0;
  printf("| topology | plan | size | ours, ms | SimGrid, ms | difference | ours took, s | SimGrid, s |\n");
  printf("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  fflush(stdout);
  for (size_t i = 0; i < n; i++) {
    std::string command = std::string("'") + self + "' '" + cases[i].topology + "' " + cases[i].plan + " " +
                          std::to_string(cases[i].bytes);
    if (std::system(command.c_str()) != 0) failed = 1;
  }
  return failed;
}

int main(int argc, char **argv) {
  if (argc == 1) return run_all(argv[0], all, sizeof all / sizeof *all);
  if (argc == 2 && strcmp(argv[1], "quick") == 0) return run_all(argv[0], quick, sizeof quick / sizeof *quick);
  if (argc != 4) {
    fprintf(stderr, "usage: simgrid_check [quick | TOPOLOGY PLAN BYTES]\n");
    return 2;
  }
  std::vector<const char *> settings = {argv[0],
                                        "--log=root.thres:warning",
                                        "--cfg=network/model:CM02",
                                        "--cfg=network/TCP-gamma:0",
                                        "--cfg=network/crosstraffic:0",
                                        "--cfg=network/bandwidth-factor:1.0",
                                        "--cfg=network/latency-factor:1.0",
                                        "--cfg=network/weight-S:0.0",
                                        "--cfg=surf/precision:1e-12"};
  int n = (int)settings.size();
  sg::Engine engine(&n, const_cast<char **>(settings.data()));
  return compare(engine, {argv[1], argv[2], strtoull(argv[3], nullptr, 10)});
}
