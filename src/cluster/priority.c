#include "priority.h"

enum { GROWTH = 4 };

struct by_priority_rules by_priority_usual(void) {
  return (struct by_priority_rules){.iterations = 10, .threshold = 10000000000ull};
}

uint32_t by_priority_class(const struct by_priority_rules *rules, uint64_t iterations, uint64_t bytes) {
  uint32_t class_ = 1;
  uint64_t threshold = rules->threshold;
  if (iterations > 0 ? iterations < rules->iterations : bytes < threshold) return 0;
  while (class_ < BY_PRIORITY_CLASSES - 1 && bytes >= threshold) {
    threshold = threshold > UINT64_MAX / GROWTH ? UINT64_MAX : threshold * GROWTH;
    class_++;
  }
  return class_;
}

uint8_t by_priority_tos(uint32_t class_) {
  static const uint8_t marks[BY_PRIORITY_CLASSES] = {0x80, 0x60, 0x40, 0x20};
  return marks[class_ < BY_PRIORITY_CLASSES ? class_ : BY_PRIORITY_CLASSES - 1];
}

int by_priority_socket(uint32_t class_) {
  static const int priorities[BY_PRIORITY_CLASSES] = {6, 4, 0, 2}; /* their bands: 0, 1, 1, 2 */
  return priorities[class_ < BY_PRIORITY_CLASSES ? class_ : BY_PRIORITY_CLASSES - 1];
}
