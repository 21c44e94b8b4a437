/* Runs a program with one float32 input on the numbers 0, 1, 2, ...: cc run.c -lmodelbuild_runtime.
 *
 *   run PROGRAM.pte [SIZE...]     the sizes of the input, from the outermost dimension */
#include <modelbuild/runtime.h>
#include <stdio.h>
#include <stdlib.h>

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, mb_last_error());
  return 1;
}

int main(int count, char** arguments) {
  int64_t shape[8];
  size_t rank = 0, numbers = 1;
  mb_program* program = NULL;
  if (count < 2 || count > 10) {
    fprintf(stderr, "usage: run PROGRAM.pte [SIZE...]\n");
    return 2;
  }
  for (; (int)rank < count - 2; ++rank) {
    shape[rank] = atoll(arguments[2 + rank]);
    numbers *= (size_t)shape[rank];
  }
  if (mb_load(arguments[1], NULL, &program) != MB_OK) return failed("load");

  float* values = malloc(numbers * sizeof(float));
  if (values == NULL) return 1;
  for (size_t i = 0; i < numbers; ++i) values[i] = (float)i;
  mb_tensor input = {values, shape, (int32_t)rank, MB_FLOAT32, MB_HOST};
  mb_status status = mb_run(program, "forward", &input, 1, NULL);
  for (size_t i = 0; status == MB_OK && i < mb_output_count(program); ++i) {
    mb_tensor output;
    status = mb_output(program, i, &output);
    if (status != MB_OK || output.dtype != MB_FLOAT32 || output.device != MB_HOST) continue;
    size_t elements = 1;
    printf("%s:", mb_output_name(program, i));
    for (int32_t k = 0; k < output.rank; ++k) elements *= (size_t)output.shape[k];
    for (size_t k = 0; k < elements; ++k) printf(" %g", ((const float*)output.data)[k]);
    printf("\n");
  }
  if (status != MB_OK) failed("run");
  mb_unload(program);
  free(values);
  return status;
}
