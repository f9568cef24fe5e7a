#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "topology_libxml.h"
#include "topology_xml.h"

static struct by_xml parsed(const char *text) {
  struct by_xml xml;
  assert_ok(by_xml_parse(&xml, "t.xml", text, strlen(text), "root", "a test"));
  return xml;
}

static void check_refused(const char *text, const char *error) {
  struct by_xml xml;
  assert_status(by_xml_parse(&xml, "t.xml", text, strlen(text), "root", "a test"), BANYAN_ERR_PARSE);
  if (strncmp(banyan_error_text(), error, strlen(error)) != 0)
    fail_msg("the error is \"%s\", must begin with \"%s\"", banyan_error_text(), error);
}

static void test_library(void **state) {
  (void)state;
  const struct by_libxml *one, *other;
  assert_ok(by_libxml_load(&one));
  assert_ok(by_libxml_load(&other));
  assert_ptr_equal(one, other);
  assert_non_null(one->free_doc);
}

static void test_attributes(void **state) {
  (void)state;
  struct by_xml xml = parsed("<root a='1' b='' xmlns:n='urn:n' n:c='2' d='&lt;&#65;&amp;'/>");
  const char *value;
  assert_string_equal(by_xml_attribute(xml.root, "a"), "1");
  assert_string_equal(by_xml_attribute(xml.root, "b"), "");
  assert_null(by_xml_attribute(xml.root, "c")); /* another program's */
  assert_string_equal(by_xml_attribute(xml.root, "d"), "<A&");
  assert_ok(by_xml_need(&xml, xml.root, "a", &value));
  assert_status(by_xml_need(&xml, xml.root, "e", &value), BANYAN_ERR_PARSE);
  assert_string_equal(banyan_error_text(), "t.xml:1: <root a=\"1\" b=\"\">: the attribute e is missing");
  by_xml_fini(&xml);
}

static void test_text(void **state) {
  (void)state;
  struct by_xml xml = parsed("<root><a>  one<!-- and -->\n two <b>no</b><![CDATA[<three> ]]></a><c/></root>");
  struct by_arena arena;
  by_arena_init(&arena);
  const xmlNode *a = by_xml_first(xml.root);
  assert_true(by_xml_is(a, "a"));
  assert_string_equal(by_xml_text(&arena, a), "one\n two <three>");
  assert_string_equal(by_xml_text(&arena, by_xml_next(a->next)), "");
  assert_null(by_xml_next(by_xml_next(a->next)->next));
  by_arena_fini(&arena);
  by_xml_fini(&xml);
}

static void test_places(void **state) {
  (void)state;
  enum { LINES = 70000 }; /* more than libxml2 keeps in a node */
  static char text[LINES + 64];
  size_t used = (size_t)snprintf(text, sizeof text, "<root>");
  memset(text + used, '\n', LINES);
  snprintf(text + used + LINES, sizeof text - used - LINES, "<a x='1&#10;'>t</a></root>");
  struct by_xml xml = parsed(text);
  assert_int_equal(by_xml_line(&xml, by_xml_first(xml.root)), LINES + 1);
  (void)by_xml_fail(&xml, by_xml_first(xml.root), "bad\n%d", 5);
  assert_string_equal(banyan_error_text(), "t.xml:70001: <a x=\"1?\">: bad?5");
  by_xml_fini(&xml);
}

static void test_refusals(void **state) {
  (void)state;
  static const char entities[] = "t.xml: has entities of its own, or a <!DOCTYPE> that declares such things";
  check_refused("", "t.xml: is empty, must be a test");
  check_refused("<root>\n</a>", "t.xml:2: not well-formed XML: ");
  check_refused("<other/>", "t.xml:1: <other>: not a test, whose outermost element is <root>");
  check_refused("<root>&who;</root>", "t.xml:1: not well-formed XML: Entity 'who' not defined");
  check_refused("<!DOCTYPE root [<!ENTITY a 'aaaaaaaaaaaaaa'>]><root>&a;</root>", entities);
  check_refused("<!DOCTYPE root [<!ATTLIST a b CDATA 'long'>]><root><a/></root>", entities);
  check_refused("<!DOCTYPE root SYSTEM 'file:///etc/passwd'><root>&a;</root>", entities);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_library), cmocka_unit_test(test_attributes), cmocka_unit_test(test_text),
      cmocka_unit_test(test_places),  cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests_name("topology_xml", tests, NULL, NULL);
}
