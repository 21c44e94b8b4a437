/* c_api_check COUNTER.pte BROKEN.pte: calls every function of the C API with what it must refuse, from C. COUNTER takes
 * one float32 of shape [1]; loading BROKEN logs an error. Prints the line of each expectation that does not hold. */
#include <limits.h>
#include <modelbuild/runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void throw_from_sink(mb_log_level level, const char* message, size_t length, void* user); /* in C++ */

static int failures = 0;

static void expect(int line, int holds) {
  if (holds) return;
  printf("line %d: %s\n", line, mb_last_error());
  ++failures;
}
#define EXPECT(what) expect(__LINE__, (what))

static int refused(mb_status status, const char* why) {
  return status == MB_ERROR_INPUT && strstr(mb_last_error(), why) != NULL && strchr(mb_last_error(), '\n') == NULL;
}

static void check_load(const char* path) {
  mb_program* program = (mb_program*)path; /* is to become NULL */
  const char* const null_element[2] = {path, NULL};
  struct {
    mb_load_options known;
    size_t later[4];
  } newer;

  EXPECT(refused(mb_load(NULL, NULL, &program), "no path is given") && program == NULL);
  EXPECT(refused(mb_load(path, NULL, NULL), "no place for the program is given"));

  mb_load_options options;
  memset(&options, 0, sizeof options);
  EXPECT(
      refused(mb_load(path, &options, &program), "mb_load_options.struct_size is 0; expected sizeof(mb_load_options)"));
  options.struct_size = sizeof(size_t) - 1;
  EXPECT(refused(mb_load(path, &options, &program), "struct_size is 7"));
  options.struct_size = sizeof options - 1;
  EXPECT(refused(mb_load(path, &options, &program), "struct_size is"));
  options.struct_size = SIZE_MAX;
  EXPECT(refused(mb_load(path, &options, &program), "struct_size is"));

  memset(&newer, 0, sizeof newer);
  newer.known.struct_size = sizeof newer;
  EXPECT(mb_load(path, &newer.known, &program) == MB_OK && program != NULL);
  mb_unload(program);
  newer.later[3] = 1;
  EXPECT(refused(mb_load(path, &newer.known, &program), "has fields that this library does not support"));
  EXPECT(program == NULL);

  options.struct_size = sizeof(size_t); /* the oldest there could be */
  EXPECT(mb_load(path, &options, &program) == MB_OK);
  mb_unload(program);

  options.struct_size = sizeof options;
  options.data_count = 1;
  EXPECT(refused(mb_load(path, &options, &program), "1 data are announced, but the array is NULL"));
  options.data = null_element;
  options.data_count = 2;
  EXPECT(refused(mb_load(path, &options, &program), "data[1] is NULL; expected a path"));
  options.data_count = 0;
  options.plugin_count = 3;
  EXPECT(refused(mb_load(path, &options, &program), "3 plugins are announced, but the array is NULL"));
  options.plugins = null_element + 1;
  options.plugin_count = 1;
  EXPECT(refused(mb_load(path, &options, &program), "plugins[0] is NULL"));
  options.plugin_count = 0;
  options.plugin_dir_count = 1;
  EXPECT(refused(mb_load(path, &options, &program), "1 plugin_dirs are announced, but the array is NULL"));
  options.plugin_dirs = null_element + 1;
  EXPECT(refused(mb_load(path, &options, &program), "plugin_dirs[0] is NULL"));
  options.plugin_dir_count = 0;
  options.key_count = 1;
  EXPECT(refused(mb_load(path, &options, &program), "1 keys are announced, but the array is NULL"));
  options.keys = null_element + 1;
  EXPECT(refused(mb_load(path, &options, &program), "keys[0] is NULL; expected a path"));
  options.keys = null_element;
  EXPECT(refused(mb_load(path, &options, &program), "expected a public key on the curve P-256 in PEM"));
  options.key_count = 0; /* would verify nothing */
  EXPECT(refused(mb_load(path, &options, &program), "keys are given, but key_count is 0"));
  options.keys = NULL;
  options.threads = -1;
  EXPECT(refused(mb_load(path, &options, &program), "threads: -1; expected 1 to 1024, or 0 for one per core"));
  options.threads = 1025;
  EXPECT(refused(mb_load(path, &options, &program), "threads: 1025; expected"));
  EXPECT(program == NULL);
}

static void check_run(mb_program* program) {
  float value = 0;
  const int64_t one = 1, huge = INT64_MAX, negative = -1;
  const mb_tensor good = {&value, &one, 1, MB_FLOAT32, MB_HOST};
  mb_tensor input = good;
  mb_run_options options;
  memset(&options, 0, sizeof options);

  EXPECT(refused(mb_run(NULL, "forward", &good, 1, NULL), "no program is given"));
  EXPECT(refused(mb_run(program, NULL, &good, 1, NULL), "no method is given"));
  EXPECT(refused(mb_run(program, "forward", NULL, 1, NULL), "1 inputs are announced, but the array is NULL"));
  EXPECT(refused(mb_run(program, "forward", NULL, 0, NULL), "0 inputs given, 1 expected"));
  EXPECT(refused(mb_run(program, "forward", &good, SIZE_MAX, NULL), "inputs are more than any program has"));
  EXPECT(refused(mb_run(program, "backward", &good, 1, NULL), "no method 'backward'"));
  EXPECT(refused(mb_run(program, "forward", &good, 1, &options), "mb_run_options.struct_size is 0"));
  options.struct_size = sizeof options;
  options.output_count = 1;
  EXPECT(refused(mb_run(program, "forward", &good, 1, &options), "1 outputs are announced, but the array is NULL"));

  input.data = NULL;
  EXPECT(refused(mb_run(program, "forward", &input, 1, NULL), "input 'input0': no data"));
  input = good;
  input.shape = NULL;
  EXPECT(refused(mb_run(program, "forward", &input, 1, NULL), "a tensor of rank 1 without sizes"));
  input.shape = &huge;
  EXPECT(refused(mb_run(program, "forward", &input, 1, NULL), "got shape [9223372036854775807]"));
  input.shape = &negative;
  EXPECT(refused(mb_run(program, "forward", &input, 1, NULL), "got shape [-1]"));
  input = good;
  input.rank = INT32_MAX;
  EXPECT(refused(mb_run(program, "forward", &input, 1, NULL), "a tensor of rank 2147483647; expected 0 to 16"));
  input.rank = INT32_MIN;
  EXPECT(refused(mb_run(program, "forward", &input, 1, NULL), "a tensor of rank -2147483648; expected 0 to 16"));
  input = good;
  input.dtype = INT32_MIN;
  EXPECT(refused(mb_run(program, "forward", &input, 1, NULL), "element type -2147483648 is not supported"));
  input = good;
  input.device = INT32_MIN;
  EXPECT(refused(mb_run(program, "forward", &input, 1, NULL), "there is no device -2147483648"));

  mb_tensor output = good;
  options.outputs = &output;
  output.shape = &negative;
  EXPECT(refused(mb_run(program, "forward", &good, 1, &options), "got memory for float32[-1]"));
  output.rank = 17;
  EXPECT(refused(mb_run(program, "forward", &good, 1, &options), "a tensor of rank 17"));

  EXPECT(mb_run(program, "forward", &good, 1, NULL) == MB_OK && mb_output_count(program) == 1);
  EXPECT(refused(mb_run(program, "forward", NULL, 1, NULL), "announced") && mb_output_count(program) == 0);
}

static void check_outputs(mb_program* program) {
  float value = 3;
  const int64_t one = 1;
  const mb_tensor input = {&value, &one, 1, MB_FLOAT32, MB_HOST};
  mb_tensor output;
  mb_transfers transfers;
  mb_graph_counts counts;
  EXPECT(mb_run(program, "forward", &input, 1, NULL) == MB_OK);
  EXPECT(mb_output(program, 0, &output) == MB_OK && output.rank == 1 && output.shape[0] == 1);
  EXPECT(refused(mb_output(program, 1, &output), "no output 1") && output.data == NULL && output.shape == NULL);
  EXPECT(refused(mb_output(program, SIZE_MAX, &output), "no output"));
  EXPECT(refused(mb_output(program, 0, NULL), "no place for the output is given"));
  EXPECT(refused(mb_output(NULL, 0, &output), "no program is given"));
  EXPECT(mb_output_name(program, 1) == NULL && mb_output_name(NULL, 0) == NULL && mb_output_count(NULL) == 0);
  EXPECT(strcmp(mb_output_name(program, 0), "output0") == 0);
  EXPECT(mb_program_json(NULL) == NULL && mb_program_json(program)[0] == '{');
  EXPECT(refused(mb_last_transfers(NULL, &transfers), "no program is given") && transfers.staged_in == 0);
  EXPECT(refused(mb_last_transfers(program, NULL), "no place for the transfers is given"));
  EXPECT(refused(mb_count_graphs(NULL, &counts), "no program is given") && counts.recorded == 0);
  EXPECT(refused(mb_count_graphs(program, NULL), "no place for the counts is given"));
  EXPECT(mb_last_transfers(program, &transfers) == MB_OK && mb_count_graphs(program, &counts) == MB_OK);
  mb_unload(NULL);
}

static void check_rest(const char* path, const char* broken) {
  char* json = (char*)path;
  void* pointer = &json;
  float value = 0;
  mb_program* program;
  EXPECT(strcmp(mb_version(), VERSION) == 0);
  EXPECT(mb_api_version() == MB_API_VERSION);
  EXPECT(refused(mb_describe(NULL, &json), "no path is given") && json == NULL);
  EXPECT(refused(mb_describe(path, NULL), "no place for the description is given"));
  EXPECT(mb_describe("/nowhere.pte", &json) == MB_ERROR_PROGRAM && json == NULL);
  EXPECT(mb_describe(path, &json) == MB_OK && json[0] == '{');
  mb_free(json);
  EXPECT(refused(mb_check(NULL, NULL, &json), "no path is given") && json == NULL);
  EXPECT(refused(mb_check(path, NULL, NULL), "no place for the requirements is given"));
  EXPECT(mb_check("/nowhere.pte", NULL, &json) == MB_ERROR_PROGRAM && json == NULL);
  EXPECT(mb_check(path, NULL, &json) == MB_OK && json[0] == '\0');
  mb_free(json);
  mb_free(NULL);

  /* Without a GPU, or a delegate that could use one. */
  EXPECT(refused(mb_device_allocate(0, 8, NULL), "no place for the address is given"));
  EXPECT(mb_device_allocate(0, 8, &pointer) == MB_ERROR_PROGRAM && pointer == NULL);
  mb_device_free(0, NULL);
  mb_device_free(-5, &value);
  EXPECT(mb_copy(&value, &value, sizeof value, 0) == MB_ERROR_PROGRAM);
  EXPECT(mb_copy(NULL, NULL, 0, 0) == MB_OK);

  EXPECT(refused(mb_set_log(-1, NULL, NULL), "there is no log level -1"));
  EXPECT(refused(mb_set_log(MB_LOG_OFF + 1, NULL, NULL), "there is no log level 5"));
  EXPECT(mb_set_log(MB_LOG_ERROR, throw_from_sink, NULL) == MB_OK);
  EXPECT(mb_load(broken, NULL, &program) == MB_OK);
  const int64_t x_shape[2] = {2, 4}, y_shape[2] = {2, 3};
  float x[8] = {0}, y[6] = {0};
  const mb_tensor inputs[2] = {{x, x_shape, 2, MB_FLOAT32, MB_HOST}, {y, y_shape, 2, MB_FLOAT32, MB_HOST}};
  EXPECT(mb_run(program, "forward", inputs, 2, NULL) == MB_ERROR_PROGRAM);
  EXPECT(strcmp(mb_last_error(), "an exception from outside this library") == 0);
  EXPECT(mb_set_log(MB_LOG_OFF, NULL, NULL) == MB_OK);
  EXPECT(mb_run(program, "forward", inputs, 2, NULL) == MB_ERROR_PROGRAM);
  EXPECT(strstr(mb_last_error(), "could not be loaded") != NULL);
  mb_unload(program);
}

int main(int count, char** arguments) {
  mb_program* program = NULL;
  if (count != 3) return 2;
  EXPECT(mb_last_error()[0] == '\0');
  check_load(arguments[1]);
  EXPECT(mb_load(arguments[1], NULL, &program) == MB_OK);
  check_run(program);
  check_outputs(program);
  mb_unload(program);
  check_rest(arguments[1], arguments[2]);
  printf("%d failures\n", failures);
  return failures != 0;
}
