#!/usr/bin/env bash
# Guess: systemd's unit files have one rule of quoting, so a path with a space is written "…" everywhere,
# and `systemd-analyze verify` exits non-zero where something is wrong.
# Seen: three groups. ReadWritePaths, BindPaths, RequiresMountsFor and Environment split at spaces and
# need the quotes; WorkingDirectory, EnvironmentFile, ConditionPathExists, PathChanged and the files of
# StandardOutput take the rest of the line and refuse them; of those, WorkingDirectory stops the unit, the
# others are ignored with a warning and the unit starts without. verify exits 0 for an ignored line
# of a service, and 1 for the same warning in a path unit.
# Why it matters: a vault called "My Notes" gives a unit that starts with no environment file, no writable
# vault and a path unit that waits for nothing. No spelling is right in all; a generator of units needs a
# rule for each directive, and its test has to read what verify prints, not its exit code.
source "$(dirname "$0")/support/common.sh"
need systemd-analyze
systemctl --version | head -n 1

mkdir "$work/units"
cd "$work/units"
verify() { # SECTION DIRECTIVE PREFIX: prints what systemd makes of the plain and of the quoted path
  local form path unit said code
  for form in plain quoted; do
    [[ $form = plain ]] && path='/srv/My Notes' || path='"/srv/My Notes"'
    unit=vault.service
    printf '[Unit]\nDescription=vault\n' >vault.service
    [[ $1 = Unit ]] && printf '%s=%s%s\n' "$2" "$3" "$path" >>vault.service
    printf '[Service]\nExecStart=/bin/true\n' >>vault.service
    [[ $1 = Service ]] && printf '%s=%s%s\n' "$2" "$3" "$path" >>vault.service
    if [[ $1 = Path ]]; then
      unit=vault.path
      printf '[Path]\n%s=%s\n' "$2" "$path" >vault.path
    fi
    code=0
    said=$(systemd-analyze verify "./$unit" 2>&1) || code=$?
    case $said in
    "") said=taken ;;
    *"unit will not be started"*) said=fatal ;;
    *) said=ignored ;;
    esac
    printf '%s %s: %s, exit %s\n' "$2" "$form" "$said" "$code"
  done
}
{
  verify Service ReadWritePaths ''
  verify Service BindPaths ''
  verify Service Environment VAULT=
  verify Unit RequiresMountsFor ''
  verify Service WorkingDirectory ''
  verify Service EnvironmentFile ''
  verify Service StandardOutput append:
  verify Unit ConditionPathExists ''
  verify Path PathChanged ''
} | tee "$work/out"
cat >"$work/expected" <<'X'
ReadWritePaths plain: ignored, exit 0
ReadWritePaths quoted: taken, exit 0
BindPaths plain: ignored, exit 0
BindPaths quoted: taken, exit 0
Environment plain: ignored, exit 0
Environment quoted: taken, exit 0
RequiresMountsFor plain: ignored, exit 0
RequiresMountsFor quoted: taken, exit 0
WorkingDirectory plain: taken, exit 0
WorkingDirectory quoted: fatal, exit 1
EnvironmentFile plain: taken, exit 0
EnvironmentFile quoted: ignored, exit 0
StandardOutput plain: taken, exit 0
StandardOutput quoted: ignored, exit 0
ConditionPathExists plain: taken, exit 0
ConditionPathExists quoted: ignored, exit 0
PathChanged plain: taken, exit 0
PathChanged quoted: ignored, exit 1
X
diff "$work/expected" "$work/out" || changed "see the lines above"
