/*
 * A stand-in for libnvidia-ml.so.1: the calls that the sidecar makes, answered from a text file.
 *
 * $NVML_WORLD names the file, "key=value" a line. It is read again whenever it was replaced, so a test
 * changes the world of a running process by renaming a new file over it. Where it is missing, nothing is
 * supported and there are no GPUs.
 *
 *   init.ret=18              nvmlInit answers this code
 *   gpus=2                   number of GPUs
 *   gpu.0.lost=1             whatever is asked of GPU 0 answers 15
 *   gpu.0.<reading>=<value>  a reading; without it NOT_SUPPORTED (3); "!4" answers that code
 *   gpu.0.mig.3.<reading>    the same for slot 3 of a GPU that is sliced with MIG
 *   gpu.0.field.<id>[.<scope>]=<type>:<value>   a field value
 *   gpu.0.gpm.<id>, gpu.0.gpm.gi<instance>.<id> what GPM measures
 *   gpu.0.procs.compute=<pid>:<bytes|na>,…      processes; also graphics, mps
 *   gpu.0.event_types=<mask>                    event types that may be registered
 *   event.<n>=<gpu>,<type>,<data>               the n-th event, from 1
 *   err.<function>=4         this function answers this code
 *   delay_ms.<function>=9000 this function takes that long: a hang
 *   quirk.procinfo_cc=1      process records of 32 bytes, as drivers 535.43 to 535.86 write them
 *
 * $NVML_CALLS names a file that gets a line "function device" for each call. Versions of the driver are made
 * by hiding symbols when it is linked (stub.py).
 */
#include "world.h"

/* ---- readings ---- */

#define TEXT(function, reading) \
    int function(Device *it, char *to, u32 size) { BEGIN_AT(it); return text(it->name, reading, to, size); }
#define WORD(function, reading) \
    int function(Device *it, u32 *to) { BEGIN_AT(it); return word(it, to, reading); }
#define WIDE(function, reading) \
    int function(Device *it, u64 *to) { BEGIN_AT(it); return whole(it, to, "%s", reading); }
#define WORD_OF(function, format) \
    int function(Device *it, u32 which, u32 *to) { \
        u64 wide = 0; \
        BEGIN_AT(it); \
        int code = whole(it, &wide, format, which); \
        if (!code) *to = (u32)wide; \
        return code; }
#define PAIR(function, one, two) \
    int function(Device *it, u32 *to, u32 *other) { \
        BEGIN_AT(it); \
        int code = word(it, to, one); \
        return code ? code : word(it, other, two); }

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
WORD(nvmlDeviceGetArchitecture, "arch")
WORD(nvmlDeviceGetComputeMode, "compute_mode")
WORD(nvmlDeviceGetPerformanceState, "pstate")
WORD(nvmlDeviceGetPowerUsage, "power_mw")
WORD(nvmlDeviceGetEnforcedPowerLimit, "power_limit_enforced_mw")
WORD(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_gen")
WORD(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width")
WORD(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_gen_max")
WORD(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max")
WORD(nvmlDeviceGetGpuInstanceId, "gi")
WORD(nvmlDeviceGetComputeInstanceId, "ci")
WIDE(nvmlDeviceGetTotalEnergyConsumption, "energy_mj")
WIDE(nvmlDeviceGetCurrentClocksEventReasons, "clock_reasons")
WIDE(nvmlDeviceGetCurrentClocksThrottleReasons, "clock_reasons")
WIDE(nvmlDeviceGetSupportedClocksEventReasons, "clock_reasons_supported")
WIDE(nvmlDeviceGetSupportedClocksThrottleReasons, "clock_reasons_supported")
WORD_OF(nvmlDeviceGetClockInfo, "clock_mhz.%u")
WORD_OF(nvmlDeviceGetMaxClockInfo, "clock_max_mhz.%u")
WORD_OF(nvmlDeviceGetTemperature, "temp.%u")
WORD_OF(nvmlDeviceGetTemperatureThreshold, "temp_threshold.%u")
WORD_OF(nvmlDeviceGetPcieThroughput, "pcie_kbps.%u")
WORD_OF(nvmlDeviceGetNvLinkState, "nvlink.%u.state")
PAIR(nvmlDeviceGetMigMode, "mig_mode", "mig_mode_pending")
PAIR(nvmlDeviceGetEncoderUtilization, "util.enc", "util.period_us")
PAIR(nvmlDeviceGetDecoderUtilization, "util.dec", "util.period_us")

typedef struct { u32 gpu, memory; } Utilization;
int nvmlDeviceGetUtilizationRates(Device *it, Utilization *to)
{
    BEGIN_AT(it);
    int code = word(it, &to->gpu, "util.gpu");
    return code ? code : word(it, &to->memory, "util.mem");
}

typedef struct { u32 version, sensor; int degrees; } TemperatureV;
int nvmlDeviceGetTemperatureV(Device *it, TemperatureV *to)
{
    u64 degrees = 0;
    BEGIN_AT(it);
    int code = whole(it, &degrees, "temp.%u", to->sensor);
    to->degrees = (int)degrees;
    return code;
}

typedef struct { u32 version; int degrees; } Margin;
int nvmlDeviceGetMarginTemperature(Device *it, Margin *to)
{
    u64 degrees = 0;
    BEGIN_AT(it);
    int code = whole(it, &degrees, "temp_margin");
    to->degrees = (int)degrees;
    return code;
}

typedef struct { char old_id[16]; u32 domain, bus, device, id, subsystem; char id_text[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(Device *it, Pci *to)
{
    BEGIN_AT(it);
    memset(to, 0, sizeof *to);
    return text(it->name, "pci", to->id_text, sizeof to->id_text);
}

typedef struct { u64 total, free, used; } Memory;
int nvmlDeviceGetMemoryInfo(Device *it, Memory *to)
{
    u64 reserved = 0;
    BEGIN_AT(it);
    int code = whole(it, &to->total, "mem.total");
    if (!code) code = whole(it, &to->used, "mem.used");
    if (code) return code;
    whole(it, &reserved, "mem.reserved");
    to->used += reserved;   /* the older struct has no other place for it */
    to->free = to->total - to->used;
    return SUCCESS;
}

typedef struct { u32 version; u64 total, reserved, free, used; } MemoryV2;
int nvmlDeviceGetMemoryInfo_v2(Device *it, MemoryV2 *to)
{
    BEGIN_AT(it);
    if (to->version != (sizeof *to | 2u << 24)) return VERSION_MISMATCH;
    int code = whole(it, &to->total, "mem.total");
    if (!code) code = whole(it, &to->used, "mem.used");
    if (code) return code;
    to->reserved = 0;
    whole(it, &to->reserved, "mem.reserved");
    to->free = to->total - to->used - to->reserved;
    return SUCCESS;
}

int nvmlDeviceGetBAR1MemoryInfo(Device *it, Memory *to)
{
    BEGIN_AT(it);
    int code = whole(it, &to->total, "bar1.total");
    if (!code) code = whole(it, &to->used, "bar1.used");
    if (!code) to->free = to->total - to->used;
    return code;
}

typedef struct { u32 version; unsigned char cluster[16]; u32 status, clique; unsigned char state; u32 health; } Fabric;
int nvmlDeviceGetGpuFabricInfoV(Device *it, Fabric *to)
{
    u64 state = 0;
    BEGIN_AT(it);
    int code = whole(it, &state, "fabric.state");
    if (!code) to->state = (unsigned char)state;
    return code ? code : word(it, &to->status, "fabric.status");
}

/* ---- field values ---- */

typedef struct {
    u32 id, scope;
    long long when, took;
    u32 type;
    int code;
    union { double real; u32 word; u64 wide; int signed_word; } value;
} Field;

int nvmlDeviceGetFieldValues(Device *it, int count, Field *fields)
{
    BEGIN_AT(it);
    for (Field *one = fields; one < fields + count; one++) {
        char value[1024];
        one->value.wide = 0x5a5a5a5a5a5a5a5aull;   /* garbage, as long as the code isn't success */
        one->code = NOT_SUPPORTED;
        if (!find(value, "%s.field.%u.%u", it->name, one->id, one->scope) &&
            !find(value, "%s.field.%u", it->name, one->id)) continue;
        char *colon = strchr(value, ':');
        one->code = value[0] == '!' ? atoi(value + 1) : SUCCESS;
        if (one->code || !colon) continue;
        one->type = (u32)atoi(value);
        one->value.wide = 0;
        if (one->type == 0) one->value.real = atof(colon + 1);
        else if (one->type == 1) one->value.word = (u32)strtoul(colon + 1, NULL, 0);
        else if (one->type == 5) one->value.signed_word = atoi(colon + 1);
        else one->value.wide = (u64)strtoull(colon + 1, NULL, 0);
    }
    return SUCCESS;
}

/* ---- processes ---- */

static int processes(const Device *it, const char *kind, u32 *count, unsigned char *to)
{
    char value[1024], quirk[1024], *next = NULL;
    if (!find(value, "%s.procs.%s", it->name, kind)) return NOT_SUPPORTED;
    if (value[0] == '!') return atoi(value + 1);
    u32 size = find(quirk, "quirk.procinfo_cc") && atoi(quirk) ? 32 : 24, listed = 0;
    for (const char *c = value; *c; c++) listed += *c == ',' || c == value;
    if (!listed) { *count = 0; return SUCCESS; }
    if (!to || *count < listed) { *count = listed; return INSUFFICIENT_SIZE; }
    for (char *one = strtok_r(value, ",", &next); one; one = strtok_r(NULL, ",", &next), to += size) {
        char bytes[24] = "na";
        u32 pid = 0, nowhere = ~0u;
        sscanf(one, "%u:%23[^:]", &pid, bytes);
        u64 used = strcmp(bytes, "na") ? strtoull(bytes, NULL, 0) : ~0ull;
        memset(to, 0, size);
        memcpy(to, &pid, sizeof pid);
        memcpy(to + 8, &used, sizeof used);
        memcpy(to + 16, &nowhere, sizeof nowhere);
        memcpy(to + 20, &nowhere, sizeof nowhere);
    }
    *count = listed;
    return SUCCESS;
}
#define PROCESSES(function, kind) \
    int function(Device *it, u32 *count, void *to) { BEGIN_AT(it); return processes(it, kind, count, to); }
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "compute")
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "compute")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics")
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps")

/* ---- the library, handles, MIG ---- */

int nvmlInitWithFlags(u32 flags)
{
    char value[1024];
    (void)flags;
    note_and_delay(__func__, NULL);
    if (find(value, "init.ret") && atoi(value)) return atoi(value);
    if (initialised_in != getpid()) initialised = 0;   /* it doesn't survive a fork */
    initialised_in = getpid();
    initialised++;
    return SUCCESS;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { BEGIN(); initialised--; return SUCCESS; }

const char *nvmlErrorString(int code)
{
    static const char *const texts[] = { [0] = "Success", [1] = "Uninitialized", [3] = "Not Supported",
        [4] = "Insufficient Permissions", [6] = "Not Found", [9] = "Driver Not Loaded", [10] = "Timeout",
        [15] = "GPU is lost", [16] = "GPU requires reset", [18] = "Driver/library version mismatch" };
    int known = code >= 0 && code < (int)(sizeof texts / sizeof *texts) && texts[code];
    return known ? texts[code] : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char *to, u32 size) { BEGIN(); return text("sys", "driver", to, size); }

int nvmlSystemGetCudaDriverVersion(int *to)
{
    char value[1024];
    BEGIN();
    if (!find(value, "sys.cuda")) return NOT_SUPPORTED;
    *to = atoi(value);
    return SUCCESS;
}

static u32 counted(void) { char value[1024]; return find(value, "gpus") ? (u32)atoi(value) : 0; }

int nvmlDeviceGetCount_v2(u32 *to) { BEGIN(); *to = counted(); return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(u32 index, Device **to)
{
    char value[1024];
    BEGIN();
    if (index >= counted() || index >= GPUS) return INVALID_ARGUMENT;
    if (find(value, "gpu.%u.handle", index) && value[0] == '!') return atoi(value + 1);
    if (find(value, "gpu.%u.lost", index) && atoi(value)) return GPU_IS_LOST;
    *to = device((int)index, -1);
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(Device *it, u32 *to)
{
    BEGIN_AT(it);
    *to = 0;
    int code = word(it, to, "mig_max");
    return code == NOT_SUPPORTED ? SUCCESS : code;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device *it, u32 slot, Device **to)
{
    char value[1024];
    BEGIN_AT(it);
    if (slot >= SLOTS) return INVALID_ARGUMENT;
    if (text(device(it->gpu, (int)slot)->name, "uuid", value, sizeof value)) return NOT_FOUND;
    *to = device(it->gpu, (int)slot);
    return SUCCESS;
}

/* ---- events ---- */

typedef struct { u32 seen; u64 types[GPUS]; } Events;
typedef struct { Device *of; u64 type, data; u32 instance, compute; } Event;
static int events_live;

int nvmlEventSetCreate(Events **to) { BEGIN(); *to = calloc(1, sizeof **to); events_live++; return SUCCESS; }
int nvmlEventSetFree(Events *events) { BEGIN(); free(events); events_live--; return SUCCESS; }

int nvmlDeviceRegisterEvents(Device *it, u64 types, Events *events)
{
    u64 supported = 0;
    BEGIN_AT(it);
    if (whole(it, &supported, "event_types") || types & ~supported) return NOT_SUPPORTED;
    events->types[it->gpu] |= types;
    return SUCCESS;
}

int nvmlEventSetWait_v2(Events *events, Event *to, u32 milliseconds)
{
    BEGIN();
    for (u32 waited = 0; waited <= milliseconds; usleep(5000), waited += 5) {
        char value[1024];
        unsigned gpu;
        unsigned long long type, data;
        while (find(value, "event.%u", events->seen + 1)) {
            events->seen++;
            if (sscanf(value, "%u,%llu,%llu", &gpu, &type, &data) != 3 || gpu >= GPUS) continue;
            if (!(events->types[gpu] & type)) continue;
            *to = (Event){ device((int)gpu, -1), type, data, ~0u, ~0u };
            return SUCCESS;
        }
    }
    return TIMED_OUT;
}

/* ---- GPM ---- */

typedef struct { Device *of; int instance; } Sample;
typedef struct { u32 id; int code; double value; char *names[3]; } Metric;
typedef struct { u32 version, count; Sample *from, *to; Metric metrics[]; } Metrics;
typedef struct { u32 version, supported; } Support;
static int samples_live;

int nvmlGpmQueryDeviceSupport(Device *it, Support *to)
{
    BEGIN_AT(it);
    if (word(it, &to->supported, "gpm")) to->supported = 0;
    return SUCCESS;
}
int nvmlGpmSampleAlloc(Sample **to) { BEGIN(); *to = calloc(1, sizeof **to); samples_live++; return SUCCESS; }
int nvmlGpmSampleFree(Sample *sample) { BEGIN(); free(sample); samples_live--; return SUCCESS; }

static int take(Device *it, int instance, Sample *sample)
{
    u32 supported = 0;
    if (word(it, &supported, "gpm") || !supported) return NOT_SUPPORTED;
    *sample = (Sample){ it, instance };
    return SUCCESS;
}
int nvmlGpmSampleGet(Device *it, Sample *sample) { BEGIN_AT(it); return take(it, -1, sample); }
int nvmlGpmMigSampleGet(Device *it, u32 instance, Sample *sample)
{
    BEGIN_AT(it);
    return take(it, (int)instance, sample);
}

int nvmlGpmMetricsGet(Metrics *request)
{
    BEGIN();
    if (!request->from || !request->to || !request->from->of || !request->to->of) return INVALID_ARGUMENT;
    const Sample *sample = request->to;
    for (Metric *one = request->metrics; one < request->metrics + request->count; one++) {
        char value[1024];
        int found = sample->instance < 0
            ? find(value, "%s.gpm.%u", sample->of->name, one->id)
            : find(value, "%s.gpm.gi%d.%u", sample->of->name, sample->instance, one->id);
        one->code = !found ? NOT_SUPPORTED : value[0] == '!' ? atoi(value + 1) : SUCCESS;
        one->value = one->code ? 0 : atof(value);
        one->names[0] = one->names[1] = one->names[2] = "";
    }
    return SUCCESS;
}

/* ---- what a test asks after the end: everything let go? ---- */

__attribute__((destructor)) static void leave(void)
{
    const char *path = getenv("NVML_CALLS");
    FILE *calls = path ? fopen(path, "a") : NULL;
    if (!calls) return;
    fprintf(calls, "end samples=%d events=%d initialised=%d\n", samples_live, events_live, initialised);
    fclose(calls);
}
