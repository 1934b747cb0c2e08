/* One pass over a dependency graph whose rows are in topological order: when is each row reached?
 *
 * time[i] = max over the edges e of i of (time of source[e] + lag[e]), plus own[i]. Edges of i are
 * first[i] .. first[i + 1]. A negative source s is row s + n of the pass before, whose times are `before`.
 * A row without edges is reached at start[i] + own[i].
 */
#include <stdint.h>

#ifdef _WIN32
__declspec(dllexport)
#endif
void longest(int64_t n, const int64_t *first, const int64_t *source, const double *lag, const double *own,
             const double *start, const double *before, double *time)
{
    for (int64_t i = 0; i < n; i++) {
        double reached = start[i];
        for (int64_t e = first[i]; e < first[i + 1]; e++) {
            int64_t s = source[e];
            double at = (s < 0 ? before[s + n] : time[s]) + lag[e];
            if (at > reached)
                reached = at;
        }
        time[i] = reached + own[i];
    }
}
