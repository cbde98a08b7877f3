/* Numbers in the tables for people. */
#ifndef OKV_BENCH_REPORT_REPORT_TEXT_H
#define OKV_BENCH_REPORT_REPORT_TEXT_H

/* Room for a number. */
#define REPORT_NUMBER_TEXT 32

/* At least 3 significant digits, without meaningless decimals; "-" for NAN. Returns `text`. */
const char *report_number_text(double number, char text[REPORT_NUMBER_TEXT]);

#endif
