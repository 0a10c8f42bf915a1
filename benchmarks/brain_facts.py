"""Facts: what people of a generated vault do and what happened on its days, each in three wordings.

As the note says it | as a question asks that shares words with the note | as one asks that shares
none. benchmarks/brain_questions.py refuses a third wording that has a word of the first.
"""

from __future__ import annotations

from typing import NamedTuple


class Fact(NamedTuple):
    """One fact in its three wordings."""

    written: str
    asked: str
    paraphrased: str


_PEOPLE = """
repairs bicycles in a shed | is repairing bicycles | fixes bikes
keeps bees behind the house | kept bees | looks after hives
plays the violin in an orchestra | is a violin player | performs on the fiddle
teaches mathematics to children | teaches mathematics | gives pupils lessons in algebra
is a doctor at the hospital | works as a doctor | practises medicine in a clinic
bakes sourdough bread every weekend | is baking sourdough | makes loaves in an oven
restores antique clocks | restored clocks | mends old timepieces
writes crime novels | is writing novels | is an author of murder mysteries
grows tomatoes in a greenhouse | is growing tomatoes | raises vegetables under glass
runs marathons | ran marathons | competes in long distance races on foot
is allergic to nuts | has an allergy to nuts | cannot eat almonds or cashews
sails a wooden boat | goes sailing on a boat | takes a yacht out to sea
collects vinyl records | is collecting records | hoards old music albums
speaks fluent Spanish | spoke Spanish | knows the language of Madrid
broke a leg while skiing | had a broken leg | injured a limb on a snowy slope
adopted two cats from a shelter | adopted cats | took in rescued kittens
drives a taxi at night | is driving a taxi | works behind the wheel of a cab
owns a bakery in the old town | is the owner of a bakery | has a shop that sells pastries
studied law at university | is a student of law | trained to become an attorney
paints portraits in oil | painted portraits | is an artist who does pictures of faces
works as a nurse for the elderly | is working as a nurse | cares for old patients
flies small planes | is flying planes | is a pilot of light aircraft
is afraid of spiders | fears spiders | panics at the sight of arachnids
was born in Iceland | comes from a birth in Iceland | is originally from Reykjavik
brews beer in the cellar | is brewing beer | makes ale underground at home
breeds horses on a ranch | bred horses | raises stallions and mares
designs furniture made of oak | is a furniture designer | creates wooden chairs and tables
sings in a choir | is singing with a choir | uses the voice in a church chorus
photographs birds at dawn | is photographing birds | shoots pictures of owls and herons
won a chess tournament | was winning at chess | beat everyone at a board game with kings and queens
lost a job last spring | is losing a job | was fired from work recently
sells insurance to farmers | is selling insurance | offers policies against damage and accidents
practises yoga each morning | is a yoga practitioner | stretches on a mat after waking
programs computers for banks | is programming computers | develops software in finance
climbs mountains in the Alps | went climbing mountains | ascends high peaks
knits scarves from wool | is knitting scarves | makes warm clothes out of yarn with needles
cooks Indian curries | is cooking curry | prepares spicy food from Mumbai
does not drink alcohol | avoids drinking alcohol | refuses wine and liquor
suffers from migraine | has had migraines | gets severe headaches
translates Russian poetry | is a translator of Russian poetry | puts verses by Pushkin into English
builds guitars by hand | was building guitars | makes stringed instruments
volunteers at the food bank | is a volunteer for the food bank | helps the hungry without pay
is training a puppy | trained a puppy | teaches tricks to a young dog
rents out a cabin by the lake | is renting a cabin | lets tourists stay in a hut near water
studies the planets with a telescope | has a telescope for planets | is an amateur astronomer
swims in cold water during winter | swam in cold water | takes icy baths outdoors
is a vegetarian | eats as vegetarians do | never touches meat
works as a plumber | is working on plumbing | unblocks pipes and drains
cuts hair in a salon | is cutting hair | is a barber
manages a football team | is a football manager | coaches soccer players
lives on a houseboat | is living on a houseboat | has a floating home
invests in solar energy | invested in solar | puts money into power from sunlight
directs theatre plays | is a director of theatre | stages dramas with actors
mends shoes | was mending shoes | is a cobbler who fixes boots
leads a scout group | was leading scouts | takes youngsters camping
recovered from cancer | is recovering from cancer | survived a tumour
plans to move to Canada | is planning on moving to Canada | intends to emigrate to Toronto
breathes badly because of asthma | has asthma with her breath | needs an inhaler for the lungs
inherited a vineyard | was inheriting a vineyard | got grapes and land from late relatives
carves figures out of stone | is carving stone | is a sculptor working in marble
dives for shipwrecks | was diving to shipwrecks | explores sunken vessels
investigates fraud for the police | is investigating fraud | is a detective looking into swindles
composes music for films | is composing music | writes soundtracks for the cinema
hosts a radio show | was hosting a radio show | talks on a broadcast
studies ants | is studying ants | researches insects that live in colonies
makes jewellery from silver | was making jewellery | crafts rings and necklaces
works at the town library | is working in a library | lends books to readers
coaches people for public speaking | is a coach for speaking | helps nervous presenters give talks
juggles knives at fairs | is juggling knives | throws blades in the air at carnivals
forecasts the weather | was forecasting weather | predicts rain and sunshine
had twins in autumn | is having twins | gave birth to two babies
fishes for trout | went fishing for trout | catches freshwater creatures with a rod
writes code for satellites | has written code for satellites | programmes what orbits the planet
buys stamps at auctions | is buying stamps | is a philatelist bidding for postage
designs bridges | is designing bridges | is an engineer of river crossings
trains for the Olympics in rowing | is rowing in training | wants a medal with oars
prays in a monastery | is praying at the monastery | is a monk
dances tango on Fridays | is dancing the tango | moves to Argentine music with a partner
raises money for orphans | is raising money for orphans | collects donations for parentless children
cleans windows of skyscrapers | was cleaning windows | washes glass on tall buildings
edits a newspaper | is a newspaper editor | decides what journalists publish in the daily press
drills teeth in a surgery | is drilling teeth | is a dentist
hunts for truffles with pigs | is hunting truffles | seeks edible fungi in forests
tunes pianos | was tuning pianos | adjusts the keys and strings of grand instruments
tells fortunes from cards | was telling fortunes | reads the future in tarot
is deaf in one ear | has a deaf ear | hears poorly
snores loudly | was snoring | makes noise while asleep
votes for the greens | is voting for greens | supports the environmental party
gambles in casinos | was gambling in a casino | bets at roulette
has a debt with the bank | is in debt at the bank | owes a lender a loan
"""
_DAYS = """
the boiler broke and the house stayed cold | the boiler broken | the heating fail and we freeze
we missed the train to the airport | we were missing a train | the railway delay cost us our flight
the neighbours argued until midnight | the neighbours arguing | people next door shout late
I found a wallet on the pavement | finding a wallet | a lost purse lie in the street
the dentist pulled a tooth | the dentist pulling teeth | I have a molar taken out
the car would not start | the car not starting | the engine of the vehicle stay dead
we celebrated a wedding by the river | celebrating a wedding | two friends marry on the bank
a storm tore tiles from the roof | the storm and the roof | strong wind damage a building
I signed the contract for the flat | signing the contract | I agree to rent an apartment
the laptop was stolen in a cafe | the laptop stolen | a thief take the computer
we buried the old dog in the garden | burying the dog | we say farewell to a dead pet
the exam went better than feared | the exam going | a test turn out well
I ran a fever and stayed in bed | having a fever | illness and high temperature keep me lying down
the basement flooded after the rain | the flooded basement | water fill the cellar
we saw a fox in the yard | seeing a fox | a wild animal with a red tail visit
the power went out for six hours | the power going out | electricity fail
I quit smoking for good | quitting smoking | I give up cigarettes
the parcel arrived empty | an empty parcel arriving | a package contain nothing
we painted the kitchen yellow | painting the kitchen | colour go on walls where meals are made
I proposed to raise the salary | a raised salary | more pay get suggested
the flight was cancelled because of fog | the cancelled flight | mist keep the plane grounded
the baby took its first steps | the first steps of a baby | an infant begin to walk
I slept badly because of the moon | sleeping badly | bright light at night cause insomnia
the cake collapsed in the oven | the collapsing cake | a dessert fall flat while baking
we planted an apple tree | planting an apple tree | a sapling for fruit go into the ground
the meeting ended in tears | the meeting ending | a conference make colleagues cry
I forgot my keys and sat on the stairs | forgetting keys | I get locked out
the tooth fairy forgot to come | the forgotten fairy | a legend leave no coin under a pillow
the bridge was closed for repairs | the closed bridge | roadworks block the river crossing
a stranger paid for my coffee | a stranger paying | somebody unknown treat me to an espresso
we watched a comet from the hill | watching the comet | a bright thing with a tail cross the sky
the printer jammed before the deadline | a jammed printer | paper stuck in a machine make me late
I burned my hand on the stove | a burned hand | the hot cooker hurt my fingers
the team shipped the release | the release shipping | software finally go out to customers
we lost the match by one goal | losing the match | the opponents beat us narrowly
the cat brought in a mouse | the cat bringing a mouse | a feline carry home a rodent
I got a ticket for speeding | a speeding ticket | police fine me for fast driving
the river froze over | the frozen river | ice cover the stream
we argued about money | arguing about money | a quarrel over finances
I donated blood for the first time | donating blood | I let a clinic take fluid from my veins
"""


def _read(table: str) -> tuple[Fact, ...]:
    return tuple(Fact(*line.split(" | ")) for line in table.strip().splitlines())


PEOPLE, DAYS = _read(_PEOPLE), _read(_DAYS)
