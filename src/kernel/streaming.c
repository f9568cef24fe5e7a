/* Stores that go past the cache. Where another core has read the old contents,
 * an ordinary store has to take every line back from it first; a streaming one
 * writes whole lines without asking. Measured between two cores of one socket,
 * 32 KiB: 0.9 us against 13.8. */
#include "reduce.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>

enum { LINE = 64 };

static void stream_lines(char *to, const char *from, size_t lines) {
  for (; lines; lines--, to += LINE, from += LINE) {
    __m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
    __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32));
    __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));
    _mm_stream_si128((__m128i *)(void *)to, a);
    _mm_stream_si128((__m128i *)(void *)(to + 16), b);
    _mm_stream_si128((__m128i *)(void *)(to + 32), c);
    _mm_stream_si128((__m128i *)(void *)(to + 48), d);
  }
  _mm_sfence();
}

void by_kernel_copy_streaming(void *dst, const void *src, size_t bytes) {
  char *to = dst;
  const char *from = src;
  size_t head = -(uintptr_t)to & (LINE - 1);
  if (bytes < 4 * LINE) head = bytes;
  memcpy(to, from, head);
  size_t lines = (bytes - head) / LINE;
  if (lines) stream_lines(to + head, from + head, lines);
  size_t done = head + lines * LINE;
  memcpy(to + done, from + done, bytes - done);
}
#else
void by_kernel_copy_streaming(void *dst, const void *src, size_t bytes) {
  memcpy(dst, src, bytes);
}
#endif
