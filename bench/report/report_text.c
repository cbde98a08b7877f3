#include "bench/report/report_text.h"

#include <math.h>
#include <stdio.h>

const char *report_number_text(double number, char text[REPORT_NUMBER_TEXT])
{
    double size = fabs(number);
    int digits = size < 10 ? 3 : size < 100 ? 2 : size < 1000 ? 1 : 0;

    if (isnan(number))
        snprintf(text, REPORT_NUMBER_TEXT, "-");
    else
        snprintf(text, REPORT_NUMBER_TEXT, "%.*f", digits, number);
    return text;
}
