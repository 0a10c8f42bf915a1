# Sourced after common.sh: two Syncthings on loopback that share the folders $work/a and $work/b.
# Discovery, relays, NAT, upgrades and reports are off. FOLDER_XML may hold more elements of the folder.
need syncthing curl

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# api NODE PATH [CURL ARGUMENTS]
api() {
  local port=web_$1
  curl -s -m 10 -H 'X-API-Key: finding' "${@:3}" "http://127.0.0.1:${!port}$2"
}

in_sync() {
  local id=id_$2
  api "$1" /rest/system/connections | grep -q '"connected": true' &&
    api "$1" "/rest/db/completion?folder=v&device=${!id}" | grep -qE '"completion": 100'
}

# scan NODE: returns when the scan is done.
scan() { api "$1" '/rest/db/scan?folder=v' -X POST >/dev/null; }
part() { api a /rest/system/pause -X POST >/dev/null; until_true not_connected; }
not_connected() { ! api b /rest/system/connections | grep -q '"connected": true'; }
meet() { api a /rest/system/resume -X POST >/dev/null; until_true in_sync a b || changed "the two did not meet again"; }

syncthing_pair() {
  local node other
  syncthing --version | cut -d' ' -f1,2
  for node in a b; do
    mkdir -p "$work/$node/.stfolder"
    STNODEFAULTFOLDER=1 syncthing generate --home="$work/home-$node" >/dev/null 2>&1
    declare -g "id_$node=$(syncthing --home="$work/home-$node" --device-id)"
    declare -g "web_$node=$(free_port)" "port_$node=$(free_port)"
  done
  for node in a b; do
    [[ $node = a ]] && other=b || other=a
    local id=id_$node other_id=id_$other web=web_$node port=port_$node other_port=port_$other
    cat >"$work/home-$node/config.xml" <<X
<configuration version="36">
  <folder id="v" label="v" path="$work/$node" type="sendreceive" rescanIntervalS="3600" fsWatcherEnabled="true" fsWatcherDelayS="1" autoNormalize="true">
    <filesystemType>basic</filesystemType>
    <device id="${!id}"></device><device id="${!other_id}"></device>
    <minDiskFree unit="">0</minDiskFree><markerName>.stfolder</markerName>
    ${FOLDER_XML-<maxConflicts>10</maxConflicts>}
  </folder>
  <device id="${!id}" name="$node"><address>dynamic</address></device>
  <device id="${!other_id}" name="$other"><address>tcp://127.0.0.1:${!other_port}</address></device>
  <gui enabled="true" tls="false"><address>127.0.0.1:${!web}</address><apikey>finding</apikey></gui>
  <options>
    <listenAddress>tcp://127.0.0.1:${!port}</listenAddress><reconnectionIntervalS>1</reconnectionIntervalS>
    <globalAnnounceEnabled>false</globalAnnounceEnabled><localAnnounceEnabled>false</localAnnounceEnabled>
    <relaysEnabled>false</relaysEnabled><natEnabled>false</natEnabled><urAccepted>-1</urAccepted>
    <autoUpgradeIntervalH>0</autoUpgradeIntervalH><crashReportingEnabled>false</crashReportingEnabled>
    <startBrowser>false</startBrowser><setLowPriority>false</setLowPriority>
  </options>
</configuration>
X
    STNOUPGRADE=1 syncthing serve --home="$work/home-$node" --no-browser --no-restart --logfile="$work/log-$node" >/dev/null 2>&1 &
    started+=($!)
  done
  until_true in_sync a b && until_true in_sync b a || {
    echo "cannot run here: the two Syncthings did not meet"
    exit 2
  }
}
