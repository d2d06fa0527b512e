/*
 * CartPole with auto-reset on one core, as little work as the task allows: the physics of
 * envrax.classic.CartPole, observations, rewards and ends in memory, and for every episode that
 * ended a new key and four numbers of it, by Threefry-2x32 as JAX has it.
 *
 * `benchmarks/limit.py` builds it: cc -O3 -march=native -shared -fPIC.
 */
#include <math.h>
#include <stdint.h>

static const float GRAVITY = 9.8f, CART = 1.0f, POLE = 0.1f, HALF = 0.5f, FORCE = 10.0f;
static const float DT = 0.02f, MAX_X = 2.4f, MAX_ANGLE = 12.0f * 2.0f * 3.14159265f / 360.0f;
static const int MAX_STEPS = 500;

static inline uint32_t rotated(uint32_t x, int r) { return (x << r) | (x >> (32 - r)); }

/* Twenty rounds; `a` and `b` are the two words of the counter, and then those of the result. */
static inline void threefry(uint32_t k0, uint32_t k1, uint32_t *a, uint32_t *b)
{
    static const int R[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    const uint32_t keys[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDAu};
    uint32_t x = *a + k0, y = *b + k1;
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < 4; j++) {
            x += y;
            y = rotated(y, R[4 * (i & 1) + j]) ^ x;
        }
        x += keys[(i + 1) % 3];
        y += keys[(i + 2) % 3] + (uint32_t)i + 1;
    }
    *a = x, *b = y;
}

static inline float start(uint32_t bits)
{
    union { uint32_t i; float f; } x = {(bits >> 9) | 0x3F800000u};
    return (x.f - 1.0f) * 0.1f - 0.05f;
}

/* Angles stay within half a radian: these polynomials are exact to a float there. */
static inline float sine(float x)
{
    const float s = x * x;
    return x * (1 + s * (-1 / 6.0f + s * (1 / 120.0f + s * (-1 / 5040.0f))));
}

static inline float cosine(float x)
{
    const float s = x * x;
    return 1 + s * (-0.5f + s * (1 / 24.0f + s * (-1 / 720.0f + s * (1 / 40320.0f))));
}

/* Slot i's key is (0, i) at first. */
static void begin(int i, float *state, int n, int32_t *age, uint32_t *keys)
{
    uint32_t a = 0, b = 1, c = 0, d = 2, e = 0, f = 3;
    const uint32_t k0 = keys[2 * i], k1 = keys[2 * i + 1];
    threefry(k0, k1, &a, &b); /* the next key, and eight words of which four are used */
    threefry(k0, k1, &c, &d);
    threefry(k0, k1, &e, &f);
    keys[2 * i] = a, keys[2 * i + 1] = b;
    state[i] = start(c), state[n + i] = start(d);
    state[2 * n + i] = start(e), state[3 * n + i] = start(f);
    age[i] = 0;
}

void reset(int n, float *state, int32_t *age, uint32_t *keys)
{
    for (int i = 0; i < n; i++) {
        keys[2 * i] = 0, keys[2 * i + 1] = (uint32_t)i;
        begin(i, state, n, age, keys);
    }
}

/*
 * `steps` steps of n slots. `actions` has (steps, n) of them, or is NULL: then they are drawn, one
 * word of Threefry each. Returns the sums of observations, rewards and ends.
 */
void rollout(int n, int steps, const int32_t *actions, float *state, int32_t *age, uint32_t *keys,
             float *restrict obs, float *restrict reward, uint8_t *restrict done,
             int32_t *restrict drawn, double *sums)
{
    const float total = CART + POLE, moment = POLE * HALF;
    float *x = state, *v = state + n, *angle = state + 2 * n, *spin = state + 3 * n;
    for (int t = 0; t < steps; t++) {
        const int32_t *action = actions ? actions + (long)t * n : drawn;
        if (!actions)
            for (int i = 0; i < n / 2; i++) {
                uint32_t a = (uint32_t)i, b = (uint32_t)(i + n / 2);
                threefry(7, (uint32_t)t, &a, &b);
                drawn[i] = a & 1, drawn[i + n / 2] = b & 1;
            }
        for (int i = 0; i < n; i++) {
            const float push = FORCE * (float)(2 * action[i] - 1);
            const float s = sine(angle[i]), c = cosine(angle[i]);
            const float drive = (push + moment * spin[i] * spin[i] * s) / total;
            const float rate = (GRAVITY * s - c * drive)
                               / (HALF * (4.0f / 3.0f - POLE * c * c / total));
            const float acceleration = drive - moment * rate * c / total;
            x[i] += DT * v[i];
            v[i] += DT * acceleration;
            angle[i] += DT * spin[i];
            spin[i] += DT * rate;
            reward[i] = 1.0f;
        }
        for (int i = 0; i < n; i++) {
            age[i] += 1;
            done[i] = (fabsf(x[i]) > MAX_X) | (fabsf(angle[i]) > MAX_ANGLE) | (age[i] >= MAX_STEPS);
        }
        for (int i = 0; i < n; i++)
            if (done[i]) begin(i, state, n, age, keys);
        for (int i = 0; i < n; i++) {
            obs[4 * i] = x[i], obs[4 * i + 1] = v[i];
            obs[4 * i + 2] = angle[i], obs[4 * i + 3] = spin[i];
        }
        float seen = 0, rewards = 0;
        int ends = 0;
        for (int i = 0; i < 4 * n; i++) seen += obs[i];
        for (int i = 0; i < n; i++) rewards += reward[i], ends += done[i];
        sums[0] += seen, sums[1] += rewards, sums[2] += ends;
    }
}
