/* Finds a command's program, and the MPI library with which it is linked. */
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "descriptor.h"
#include "launch.h"

struct image {
  const unsigned char *bytes;
  size_t length;
  Elf64_Ehdr header;
};

static bool copy_bytes(const struct image *image, uint64_t offset, void *out, size_t size) {
  if (offset > image->length || size > image->length - offset) return false;
  memcpy(out, image->bytes + offset, size);
  return true;
}

static bool find_segment(const struct image *image, unsigned index, Elf64_Phdr *out) {
  uint64_t offset = (uint64_t)index * sizeof *out;
  return image->header.e_phoff <= image->length && copy_bytes(image, image->header.e_phoff + offset, out, sizeof *out);
}

/* Returns the offset in the file of the byte that is loaded at an address. */
static bool offset_of(const struct image *image, uint64_t address, uint64_t *out) {
  Elf64_Phdr part;
  for (unsigned i = 0; i < image->header.e_phnum && find_segment(image, i, &part); i++) {
    if (part.p_type != PT_LOAD || address < part.p_vaddr || address - part.p_vaddr >= part.p_filesz) continue;
    *out = part.p_offset + (address - part.p_vaddr);
    return *out >= part.p_offset;
  }
  return false;
}

/* Recognises "libmpi.so.40" as Open MPI 4 and 5, "libmpich.so.12" as Debian's MPICH, "libmpi.so.12" as MPICH; the
 * Fortran bindings have the same numbers. */
static enum by_mpi_abi abi_of(const char *library) {
  const char *version = strstr(library, ".so.");
  if (strncmp(library, "libmpi", 6) != 0 || !version) return BY_MPI_NONE;
  if (!strncmp(library, "libmpich", 8) || !strcmp(version, ".so.12")) return BY_MPI_MPICH;
  return !strcmp(version, ".so.40") ? BY_MPI_OPENMPI : BY_MPI_NONE;
}

/* Reads a dynamic section that ends with the file or its segment. */
static enum by_mpi_abi abi_of_needed(const struct image *image, const Elf64_Phdr *dynamic, uint64_t names) {
  Elf64_Dyn entry;
  for (uint64_t at = 0; at + sizeof entry <= dynamic->p_filesz; at += sizeof entry) {
    if (dynamic->p_offset > image->length || !copy_bytes(image, dynamic->p_offset + at, &entry, sizeof entry)) break;
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag != DT_NEEDED || names > image->length || entry.d_un.d_val >= image->length - names) continue;
    const char *name = (const char *)image->bytes + names + entry.d_un.d_val;
    if (!memchr(name, 0, image->length - names - entry.d_un.d_val)) continue;
    enum by_mpi_abi abi = abi_of(name);
    if (abi != BY_MPI_NONE) return abi;
  }
  return BY_MPI_NONE;
}

static bool find_names(const struct image *image, const Elf64_Phdr *dynamic, uint64_t *out) {
  Elf64_Dyn entry;
  for (uint64_t at = 0; at + sizeof entry <= dynamic->p_filesz; at += sizeof entry) {
    if (dynamic->p_offset > image->length || !copy_bytes(image, dynamic->p_offset + at, &entry, sizeof entry))
      return false;
    if (entry.d_tag == DT_NULL) return false;
    if (entry.d_tag == DT_STRTAB) return offset_of(image, entry.d_un.d_ptr, out);
  }
  return false;
}

enum by_mpi_abi by_elf_abi(const unsigned char *bytes, size_t length) {
  struct image image = {.bytes = bytes, .length = length};
  Elf64_Phdr part;
  uint64_t names;
  if (!copy_bytes(&image, 0, &image.header, sizeof image.header) ||
      memcmp(image.header.e_ident, ELFMAG, SELFMAG) != 0 || image.header.e_ident[EI_CLASS] != ELFCLASS64 ||
      image.header.e_ident[EI_DATA] != ELFDATA2LSB || image.header.e_phentsize != sizeof part)
    return BY_MPI_NONE;
  for (unsigned i = 0; i < image.header.e_phnum && find_segment(&image, i, &part); i++)
    if (part.p_type == PT_DYNAMIC && find_names(&image, &part, &names)) return abi_of_needed(&image, &part, names);
  return BY_MPI_NONE;
}

enum by_mpi_abi by_program_abi(const char *path) {
  struct stat about;
  enum by_mpi_abi abi = BY_MPI_NONE;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return BY_MPI_NONE;
  if (!fstat(fd, &about) && S_ISREG(about.st_mode) && about.st_size > 0) {
    void *bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes != MAP_FAILED) {
      abi = by_elf_abi(bytes, (size_t)about.st_size);
      munmap(bytes, (size_t)about.st_size);
    }
  }
  close(fd);
  return abi;
}

static bool is_program(const char *path) {
  struct stat about;
  return !stat(path, &about) && S_ISREG(about.st_mode) && !access(path, X_OK);
}

bool by_program_find(const char *name, char *out, size_t capacity) {
  const char *path = getenv("PATH");
  if (!*name) return false;
  if (strchr(name, '/')) return (size_t)snprintf(out, capacity, "%s", name) < capacity && is_program(out);
  while (path && *path) {
    size_t length = strcspn(path, ":");
    if ((size_t)snprintf(out, capacity, "%.*s/%s", (int)length, path, name) < capacity && is_program(out)) return true;
    path += length + (path[length] == ':');
  }
  return false;
}
