#ifndef RQLB_NUMBER_H
#define RQLB_NUMBER_H

/* Numbers for people: 7412 is "7,412". */

#include <stdint.h>

struct number {
    char text[28];
};

struct number number_of(int64_t value);

#endif
