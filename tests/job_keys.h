/* Keys of two jobs, of the form that job_key.h describes. */
#ifndef BY_TESTS_JOB_KEYS_H
#define BY_TESTS_JOB_KEYS_H

#define JOB_KEY "banyan_key_5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a_c3247247"
#define OTHER_JOB_KEY "banyan_key_c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3_03e80613"

#endif
