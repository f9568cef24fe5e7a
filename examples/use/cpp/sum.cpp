// Sums the vectors of all ranks: banyan run -n 2 -- build/sum
#include <banyan/banyan.h>

#include <iostream>
#include <memory>
#include <stdexcept>
#include <vector>

static void check(enum banyan_status status) {
  if (status != BANYAN_OK) throw std::runtime_error(banyan_error_text());
}

int main() try {
  struct banyan_comm *created = nullptr;
  check(banyan_comm_create(nullptr, &created));
  std::unique_ptr<banyan_comm, decltype(&banyan_comm_destroy)> comm(created, banyan_comm_destroy);
  std::vector<double> x(1000, 3);
  check(banyan_allreduce(comm.get(), x.data(), x.data(), x.size(), BANYAN_FLOAT64, BANYAN_SUM));
  std::cout << banyan_version() << ": " << x[0] << " of " << banyan_comm_size(comm.get()) << std::endl;
  return 0;
} catch (const std::exception &error) {
  std::cerr << error.what() << std::endl;
  return 1;
}
