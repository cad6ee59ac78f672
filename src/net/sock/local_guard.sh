#!/bin/sh
# Guard of the private server of `local:`. Starts the server, or takes over one that has lost its
# guard, and ends it when for idle_s seconds it had no client and no lock.
# Arguments: start|adopt folder server cli idle_s
#
# Descriptor 8 is the post: a lock on guard.lock that says that a guard is there. Descriptor 9 is the
# lock on the folder that a joiner holds until it is connected. No child may keep either.
set -u
cd /
umask 077
PATH=$PATH:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

mode=$1 folder=$2 server=$3 cli=$4 idle_s=$5
socket=$folder/redis.sock
post=$folder/guard.lock
log=$folder/redis.log
step_s=$((idle_s < 5 ? idle_s : 5))
files=10032 # open files: as many as a server wants for its 10,000 clients
seen=0

ask() {
    "$cli" -s "$socket" "$@" 8>&- 9>&- 2>/dev/null
}

# Only who has the post starts a server, so there are never two.
take_post() {
    exec 8>>"$post"
    flock -w 10 8 && [ -e "$post" ] && on_post
}

# Somebody who tidies /tmp may have removed the file, and a later joiner made another.
on_post() {
    # shellcheck disable=SC3013 # every sh of Linux has -ef
    [ ! -e "$post" ] || [ "$post" -ef /proc/self/fd/8 ]
}

# A joiner asked for a server, but that was before we had to wait for the post.
is_needed() {
    [ ! -S "$socket" ] || [ -z "$(exec 8>&- 9>&-; ask PING)" ]
}

# The server outlives the program that happened to start it, and serves others: the limits, the
# priority and the oom score of that program should not stay with it. Whatever cannot be changed is
# added to `kept`. A shell knows the number of processes as -u or as -p, never as both.
kept=
# shellcheck disable=SC3045 # what the shell's ulimit does not know is skipped
lift_limits() {
    processes=p
    (ulimit -u) >/dev/null 2>&1 && processes=u
    ulimit -n "$files" 2>/dev/null
    for limit in n d v t "$processes"; do
        hard=$(ulimit -H -"$limit" 2>/dev/null) || continue
        ulimit -S -"$limit" "$hard" 2>/dev/null
        case $limit$hard in
            *unlimited | "$processes"*) ;;
            n*) [ "$hard" -ge "$files" ] ||
                keep "at most $hard open files, of which 32 are its own, the others for clients" ;;
            d*) keep "at most $hard kB of data (ulimit -d)" ;;
            v*) keep "at most $hard kB of address space (ulimit -v)" ;;
            t*) keep "at most $hard s of processor time (ulimit -t)" ;;
        esac
    done
    [ "$(nice)" -le 0 ] || renice -n 0 -p $$ >/dev/null 2>&1 || keep "nice $(nice)"
    read -r score </proc/self/oom_score_adj
    [ "$score" -le 0 ] || { echo 0 >/proc/self/oom_score_adj; } 2>/dev/null ||
        keep "oom_score_adj $score"
} 2>/dev/null

keep() {
    kept="$kept# rql: kept from the program that started the server: $1
"
}

start_server() {
    printf %s "$kept" >>"$log"
    "$server" --port 0 --unixsocket "$socket" --unixsocketperm 700 --save '' --appendonly no \
        --maxmemory-policy noeviction --dir "$folder" --daemonize no \
        --loglevel warning --logfile "$log" 8>&- &
    pid=$!
}

server_pid() {
    ask INFO server | sed -n 's/^process_id:\([0-9]*\).*/\1/p'
}

# A server in a container that shares the folder tells its number there. Here that number may be of
# another process, which does not work in the folder.
is_our_server() {
    case $(exec 8>&- 9>&-; readlink "/proc/$pid/cwd") in
        "$real_folder" | "$real_folder (deleted)") ;;
        *) return 1 ;;
    esac
}

adopt_server() {
    pid=$(exec 8>&- 9>&-; server_pid)
    real_folder=$(exec 8>&- 9>&-; cd -P "$folder" && pwd -P)
    [ -n "$pid" ] && is_our_server
}

# Waits for step_s, but no longer than the server lives.
wait_a_step() {
    if reply=$(exec 8>&- 9>&-; ask BLPOP rql:local:guard "$step_s") && [ -z "$reply" ]; then
        return 0
    fi
    tenths=$((step_s * 10))
    while [ "$tenths" -gt 0 ] && kill -0 "$pid" 2>/dev/null; do
        tenths=$((tenths - 1))
        sleep 0.1 8>&- 9>&-
    done
}

field() {
    printf '%s\n' "$info" | sed -n "s/^$1:\([0-9]*\).*/\1/p" 8>&- 9>&-
}

# no_client N: nobody but us is connected, and nobody was since the last call, in which time we
# connected N times.
no_client() {
    info=$(exec 8>&- 9>&-; ask INFO)
    clients=$(field connected_clients)
    total=$(field total_connections_received)
    fresh=$((${total:-0} - seen))
    seen=${total:-0}
    [ "$clients" = 1 ] && [ "$fresh" -eq "$1" ]
}

# Only a plain 0 proves it. A lock without a client has a ttl: we wait for that.
no_lock() {
    [ "$(exec 8>&- 9>&-; ask EVAL "
        local cursor = '0'
        repeat
            local page = redis.call('SCAN', cursor, 'MATCH', 'rql:lock:*', 'COUNT', 1000)
            if #page[2] > 0 then return 1 end
            cursor = page[1]
        until cursor == '0'
        return 0" 0)" = 0 ]
}

is_gone() {
    tries=0
    while kill -0 "$pid" 2>/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -le 100 ] || return 1
        sleep 0.05 8>&- 9>&-
    done
}

# Joiners are locked out, so nobody connects to a server that is about to end.
end_if_unused() {
    exec 9<"$folder"
    flock 9
    if no_client 1 && no_lock; then
        ask SHUTDOWN NOSAVE
        is_gone && rm -f "$socket" "$post" "$log" && exit 0
    fi
    exec 9<&-
}

# A server that nobody can find any more must not go on granting locks beside the next one. Asked to
# end it would remove its socket by name, which is the next one's by now.
leave_server() {
    [ "$(exec 8>&- 9>&-; server_pid)" = "$pid" ] || kill -KILL "$pid"
}

watch_server() {
    quiet_s=0
    while wait_a_step; kill -0 "$pid" 2>/dev/null; do
        { on_post && [ -S "$socket" ]; } || { leave_server; return; }
        if no_client 2; then quiet_s=$((quiet_s + step_s)); else quiet_s=0; fi
        [ "$quiet_s" -lt "$idle_s" ] || { end_if_unused; quiet_s=0; }
    done
}

guard() {
    take_post || exit 0
    if [ "$mode" = start ] && is_needed; then
        start_server
    else
        adopt_server || exit 0
    fi
    watch_server
}

[ "$mode" != start ] || lift_limits
# In the background of a shell that ends at once: the guard is nobody's child.
guard &
